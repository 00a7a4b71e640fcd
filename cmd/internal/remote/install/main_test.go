package install

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
)

// TestMain runs this binary as a relay that damages the program in transit, if requested.
func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Commands: map[string]func([]string) int{
		"relay": func(args []string) (status int) { return relayCommand(args[0], args[1:]) },
	}})
}

// relayedBytes is the number of bytes before a relay does damage: more than the size of the script.
const relayedBytes = 50_000

// relayCommand runs a command and damages its input after the first bytes.
func relayCommand(how string, words []string) int {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.CopyN(in, os.Stdin, relayedBytes)
	switch how {
	case "cuts":
		_ = in.Close()
	case "changes":
		rest, _ := io.ReadAll(io.LimitReader(os.Stdin, 1000))
		for i := range rest {
			rest[i] ^= 0x55
		}
		_, _ = in.Write(rest)
		_, _ = io.Copy(in, os.Stdin)
	case "freezes":
		testexec.BlockForever() // the relay reads no more input
	}
	if err := cmd.Wait(); err != nil {
		return 1
	}
	return 0
}
