//go:build linux

package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// rawReader is the start of a program in Python that reads keys in raw mode.
const rawReader = "import os, sys, termios, tty\nbefore = termios.tcgetattr(0); tty.setraw(0)\nos.write(1, b'ready\\r\\n')\n"

// Programs that open, use or leave their terminal in an unusual way.
func TestMisbehavingPrograms(t *testing.T) {
	t.Parallel()
	runPrograms(t, []programTest{{
		name:  "reads a line from the terminal that it opens itself",
		start: runShell("{python} -c 'tty = open(\"/dev/tty\", \"r+b\", 0); tty.write(b\"Name? \"); print(\"answer\", tty.readline())' </dev/null"),
		asks:  "Name?", steps: []step{answer("ada", `answer b'ada\n'`)},
	}, {
		name:  "reads a key from the terminal that it opens itself",
		start: runShell("{python} -c 'import os, termios, tty; fd = os.open(\"/dev/tty\", os.O_RDWR); before = termios.tcgetattr(fd); tty.setraw(fd); os.write(fd, b\"ready\"); key = os.read(fd, 9); termios.tcsetattr(fd, termios.TCSADRAIN, before); print(\"answer\", key)' </dev/null"),
		asks:  "ready", steps: []step{keys("<Up>", `answer b'\x1b[A'`)},
	}, {
		name:  "leaves raw mode behind",
		start: runPython(rawReader+"os.read(0, 1)") + "\nprint('answer', input('Name? '))",
		asks:  "ready", steps: []step{keys("q", "Name?"), answer("ada", "answer ada")},
	}, {
		name:  "leaves the alternate screen behind",
		start: runPython("import os; os.write(1, b'\\x1b[?1049h\\x1b[?25lready'); input()") + "\nprint('answer', input('Name? '))",
		asks:  "ready", steps: []step{keys("<Enter>", "Name?"), answer("ada", "answer ada")},
	}, {
		name:  "dies in the middle of a key",
		start: runPython(rawReader + "os.read(0, 1); os.kill(os.getpid(), 9)"),
		asks:  "ready", steps: []step{keys("<Up>print(<Enter>", "status -9")},
	}, {
		name: "prints without end while it reads", quiet: true,
		start: runPython("import os, threading, time\ndef flood():\n while True: print('x' * 100, flush=True); time.sleep(.0005)\n" +
			"threading.Thread(target=flood, daemon=True).start()\nif input() == 'stop': print('stopped', flush=True); os._exit(3)"),
		asks: "xxx", steps: []step{keys("stop<Enter>", "status 3")},
	}, {
		name:  "asks the terminal, and reads the reply",
		start: runPython(rawReader + "os.write(1, b'\\x1b[6n')\nreply = b''\nwhile not reply.endswith(b'R'): reply += os.read(0, 1)\nos.write(1, b'asked\\r\\n'); os.read(0, 1)\ntermios.tcsetattr(0, termios.TCSADRAIN, before)\nprint('answer', reply)"),
		asks:  "asked", steps: []step{keys("q", "answer b'\\x1b[")},
	}, {
		name:  "gets keys of any language",
		start: runPython("print('answer', ascii(input('Name? ')))"),
		asks:  "Name?", steps: []step{keys("äö漢😀<Enter>", `answer '\xe4\xf6\u6f22\U0001f600'`)},
	}, {
		name:  "ends by Ctrl-C, and not the turn",
		start: runShell("trap 'echo interrupted; exit 7' INT; echo ready; read x"),
		asks:  "ready", steps: []step{keys("<C-c>", "interrupted")},
	}, {
		name:  "reads a line that is corrected before Enter",
		start: runPython("print('answer', ascii(input('Name? ')))"),
		asks:  "Name?", steps: []step{keys("eve<C-u>adb<BS>a<Enter>", "answer 'ada'")},
	}, {
		name:  "gets the end of file",
		start: runShell("echo ready; cat >file; echo copied $(cat file)"),
		asks:  "ready", steps: []step{keys("one<Enter><C-d>", "copied one")},
	}})

	t.Run("a stopped program in the background is no question", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, "")
		u.prepare(false)
		reply := u.repl(stepTimeout, "input", runShell("set -m; cat & sleep 2; kill -9 %1; wait; echo end")+"\n")
		if questionStates.MatchString(reply) || !strings.Contains(reply, "status 0") {
			t.Errorf("got %q", reply)
		}
		u.wantIdle()
	})

	t.Run("ten programs that read at once get one line each", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, "")
		u.prepare(false)
		reply := u.repl(10*time.Second, "input", runShell("for i in 0 1 2 3 4 5 6 7 8 9; do (read x </dev/tty; echo got $x) & done; wait"))
		for i := range 10 {
			u.wantQuestion(reply)
			reply = u.repl(10*time.Second, "input", fmt.Sprintf("line%d", i))
			u.wantShown(reply, fmt.Sprintf("got line%d", i))
		}
		u.wantIdle()
	})
}

// countKeys is code that reads n bytes in raw mode, and prints how many came and which was last.
func countKeys(n int) string {
	return runPython(fmt.Sprintf(rawReader+"got = b''\nwhile len(got) < %d: got += os.read(0, 65536)\ntermios.tcsetattr(0, termios.TCSADRAIN, before)\nprint('counted', len(got), got[-1:])", n))
}

func TestManyKeys(t *testing.T) {
	t.Parallel()
	programsDir(t)

	t.Run("64 KiB arrive complete", func(t *testing.T) {
		t.Parallel()
		const enter = "<Enter>"
		text := strings.Repeat("a", 64<<10-len(enter))
		u := newUser(t, "")
		u.prepare(false)
		u.wantQuestion(u.repl(10*time.Second, "input", expandPaths(t, countKeys(len(text)+1), nil)))
		u.wantShown(u.repl(10*time.Second, "keys", text+enter), fmt.Sprintf(`counted %d b'\r'`, len(text)+1))
		u.wantIdle()
	})

	t.Run("more are refused, and none of them is typed", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, "")
		u.prepare(false)
		u.wantQuestion(u.repl(10*time.Second, "input", expandPaths(t, countKeys(3), nil)))
		u.repl(time.Second, "keys", strings.Repeat("a", 100_000))
		u.wantShown(u.repl(10*time.Second, "keys", "xyz"), "counted 3 b'z'")
		u.wantIdle()
	})
}

func TestRefusedKeys(t *testing.T) {
	t.Parallel()
	programsDir(t)
	const code = "print('answer', input('Name? '))"
	child := runPython("import sys; print('Name? ', end='', flush=True); print('answer', ascii(sys.stdin.readline()))")

	for _, test := range []struct{ name, arguments, want string }{
		{"an unknown name", `{"keys": "ada<Nothing>"}`, "<Enter>"},
		{"an open bracket", `{"keys": "ada<"}`, "<lt>"},
		{"keys together with an input", `{"keys": "a", "input": "b"}`, "input"},
		{"nothing", `{"keys": ""}`, ""},
		{"no text", `{"keys": {}}`, ""},
		{"half of a pair of surrogates", `{"keys": "a\ud800"}`, ""},
		{"bytes that are no UTF-8", "{\"keys\": \"a\xff\xfe\"}", ""},
		{"a NUL", `{"keys": "\u0000"}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, "")
			u.prepare(false)
			u.wantQuestion(u.repl(10*time.Second, "input", expandPaths(t, child, nil)))
			if got := u.callWith("repl", strings.TrimSuffix(test.arguments, "}")+`, "timeout_ms": 500}`); !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			u.wantShown(u.repl(10*time.Second, "keys", "ada<Enter>"), `ada\n'`)
			u.wantIdle()
		})
	}

	t.Run("keys without a turn are refused and are no code", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, "")
		for range 2 { // in a session that does not exist yet, and after a turn
			if got := u.repl(10*time.Second, "keys", "open('typed', 'w')<Enter>"); strings.Contains(got, "TextIOWrapper") {
				t.Errorf("got %q", got)
			}
			u.wantIdle()
		}
		if _, err := os.Stat(filepath.Join(u.dir, "typed")); err == nil {
			t.Error("the keys ran as code")
		}
	})

	t.Run("an answer after the end of its turn is no code", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, "")
		u.prepare(false)
		u.wantQuestion(u.repl(10*time.Second, "input", runShell("read -t 1.5 -p 'Name? ' x; touch ended")))
		wait.Until(t, "the program ends", func() bool {
			_, err := os.Stat(filepath.Join(u.dir, "ended"))
			return err == nil
		})
		u.repl(10*time.Second, "input", "open('typed', 'w')")
		u.wantIdle()
		if _, err := os.Stat(filepath.Join(u.dir, "typed")); err == nil {
			t.Error("the answer ran as code")
		}
	})

	t.Run("the session's own question is answered by an input and not by keys", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, "")
		u.wantQuestion(u.repl(10*time.Second, "input", code))
		u.repl(time.Second, "keys", "eve<Enter>")
		u.wantShown(u.repl(10*time.Second, "input", "ada"), "answer ada")
		u.wantIdle()
	})
}
