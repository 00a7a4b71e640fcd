//go:build linux

package remote

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// uploadBytes is the approximate size of the compressed program, which repl remote install sends.
const uploadBytes = 13 << 20

// prefixDyingAfter returns a prefix that kills all its processes after it has sent this number of
// bytes. stdbuf keeps head from buffering them.
func (r *testRemote) prefixDyingAfter(bytes int) string {
	return `sh -c '{ stdbuf -o0 head -c ` + strconv.Itoa(bytes) + `; kill -KILL -$$; } | "$@"' sh ` + strings.Join(r.prefix(), " ")
}

func TestInstall_CutUpload(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e *testEngine) {
		w := e.newRemote(t)
		whole, err := os.ReadFile(binary)
		wantNoError(t, err)
		hash := fmt.Sprintf("%x", sha256.Sum256(whole))
		install := func(via string) (out, errs string, status int) {
			t.Helper()
			cmd := w.replCommand(t, "remote")
			cmd.Args = []string{binary, "remote", "install", "--via", via, "--dir", w.home}
			return runToEnd(t, cmd)
		}
		// programs checks every file that has the name of a program, and counts them.
		programs := func() int {
			t.Helper()
			names, err := filepath.Glob(filepath.Join(w.home, "turnstone", "bin", "repl-"+strings.Repeat("[0-9a-f]", 16)))
			wantNoError(t, err)
			for _, name := range names {
				got, err := os.ReadFile(name)
				wantNoError(t, err)
				if !bytes.Equal(got, whole) {
					t.Errorf("%s has %d bytes, want %d, or its content differs", name, len(got), len(whole))
				}
			}
			return len(names)
		}
		cut, tries := 0, max(2, cutCount(t)/4) // each compresses the program again
		for range tries {
			after := rand.IntN(uploadBytes)
			_, errs, status := install(w.prefixDyingAfter(after))
			n := programs()
			switch {
			case status == 0 && n == 1:
				wantNoError(t, os.Remove(filepath.Join(w.home, "turnstone", "bin", "repl-"+hash[:16])))
			case status == 0 || errs == "":
				t.Errorf("after %d bytes: status %d, %d programs, errors %q", after, status, n, errs)
			default:
				cut++
			}
		}
		via := strings.Join(w.prefix(), " ")
		if out, errs, status := install(via); status != 0 || !strings.Contains(out, "repl-"+hash[:16]) || programs() != 1 {
			t.Errorf("the next attempt: status %d, output %q, errors %q", status, out, errs)
		}
		cmd := w.replCommand(t, "list")
		cmd.Args = []string{binary, "list", "--via", via, "--socket", w.socket}
		if out, errs, status := runToEnd(t, cmd); status != 0 {
			t.Errorf("with the installed program: status %d, output %q, errors %q", status, out, errs)
		}
		t.Logf("%d of %d uploads were cut", cut, tries)
	})
}
