//go:build unix

package cli

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
)

func TestBrokenPipe(t *testing.T) {
	read, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	_ = read.Close()
	var said strings.Builder
	status := dispatchCommand(cmdkit.Streams{In: os.Stdin, Out: into, Err: &said}, []string{"help", "--markdown"})
	if want := 128 + int(syscall.SIGPIPE); status != want || said.String() != "" {
		t.Errorf("got status %d and %q, want %d", status, said.String(), want)
	}
}
