//go:build linux || windows

package python_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestInput(t *testing.T) {
	t.Parallel()

	t.Run("large inputs arrive complete", func(t *testing.T) {
		t.Parallel()
		cells := []struct {
			name, code, want string
		}{
			{"a cell of 50 MB", "x = '''" + strings.Repeat("0123456789012345678901234567890123456789012345678\n", 1_000_000) + "'''\nlen(x)", "50000000\n"},
			{"a line of 4 MB", "x = '" + strings.Repeat("é", 2_000_000) + "'; len(x)", "2000000\n"},
			{"many lines", strings.Repeat("x = 1\n", 10_000) + "x", "1\n"},
		}
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			for _, c := range cells {
				t.Run(c.name, func(t *testing.T) {
					r.RunCode(t, c.code).WantTranscript(t, c.want)
					wantCleanTurn(t, r)
				})
			}
		})
	})

	t.Run("large answers arrive complete", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			line := strings.Repeat("é", 1_000_000)
			if res := r.RunCode(t, "print(len(input()))", line); res.OutputText() != "1000000\n" {
				t.Errorf("got %.300q", res.Transcript())
			}
			lines := strings.Repeat("0123456\n", 400_000)
			if res := r.RunCode(t, "import sys; print(len(sys.stdin.read()))", lines, sessionkit.EndOfFile); res.OutputText() != "3200001\n" {
				t.Errorf("got %.300q", res.Transcript())
			}
			wantCleanTurn(t, r)
		})
	})

	t.Run("Python accepts or rejects strange bytes itself", func(t *testing.T) {
		t.Parallel()
		cells := []struct{ name, code, outcome, out string }{
			{"nothing", "", "ok", ""},
			{"white space", " \n\t\n", "ok", ""},
			{"a comment", "# nothing", "ok", ""},
			{"NUL", "print('a\x00b')", "error", "null byte"},
			{"invalid UTF-8", "print('\xff')", "error", "SyntaxError"},
			{"another encoding", "# -*- coding: latin-1 -*-\nprint('\xe9')", "error", "not UTF-8"},
			{"a byte order mark", "\ufeffprint('bom')", "ok", "bom\n"},
			{"CRLF", "for i in range(2):\r\n    print(i)\r\n'''a\r\nb'''", "ok", "0\n1\n'a\\nb'\n"},
			{"a form feed", "\x0cprint('ff')", "ok", "ff\n"},
			{"an escape", "print(len('\x1b[31m'))", "ok", "5\n"},
		}
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			for _, c := range cells {
				t.Run(c.name, func(t *testing.T) {
					res := r.RunCode(t, c.code)
					if res.Outcome != c.outcome || !strings.Contains(res.OutputText(), c.out) || c.outcome == "ok" && res.OutputText() != c.out {
						t.Errorf("got %q, outcome %q; want %q and %s", res.Transcript(), res.Outcome, c.out, c.outcome)
					}
					if res.WorkerExit != nil {
						r.RestartWorker(t)
					}
					wantCleanTurn(t, r)
				})
			}
		})
	})

	t.Run("rejects an input that is too large and sends nothing", func(t *testing.T) {
		t.Parallel()
		r := openSession(t, python.Options{})
		_, err := r.Submit(t.Context(), strings.Repeat(" ", supervisor.MaxInputBytes+1))
		if err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("got %v", err)
		}
		wantCleanTurn(t, r)
	})
}

func TestOutput(t *testing.T) {
	t.Parallel()

	t.Run("a lone surrogate fails only the print", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			for _, code := range []string{`print('\ud800')`, `print('\ud800' * 10000)`} {
				if res := r.RunCode(t, code); res.Failure != "UnicodeEncodeError" && !strings.Contains(res.OutputText(), `\ud800`) {
					t.Errorf("%s: got %.300q, outcome %q %s", code, res.Transcript(), res.Outcome, res.Failure)
				}
				wantCleanTurn(t, r)
			}
			r.RunCode(t, `'\ud800'`).WantTranscript(t, `'\ud800'`+"\n")
			res := r.RunCode(t, `raise ValueError('\ud800')`)
			if res.Failure != "ValueError" || !strings.HasSuffix(res.OutputText(), `ValueError: \ud800`+"\n") {
				t.Errorf("got %q, outcome %q", res.Transcript(), res.Outcome)
			}
			r.RunCode(t, `import sys; sys.stderr.write('\ud800\n'); None`).WantTranscript(t, "<err>\\ud800\n")
			if res := r.RunCode(t, `input('\ud800? ')`, "x"); res.Failure != "UnicodeEncodeError" && res.Outcome != "ok" {
				t.Errorf("got %q, outcome %q", res.Transcript(), res.Outcome)
			}
			wantCleanTurn(t, r)
		})
	})

	t.Run("a progress bar shows its last state", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			turn := r.StartTurn(t, "for i in range(0, 101, 10): print('\\r%3d %%' % i, end='', flush=True)\nprint('\\ndone')")
			reply, err := r.Wait(sessionkit.TimeoutContext(t), turn, nil)
			if err != nil || reply.Outcome != "ok" {
				t.Fatalf("got %q, outcome %q, %v", reply.Text(), reply.Outcome, err)
			}
			if got, want := reply.Text(), "100 %\ndone"; strings.TrimSpace(got) != want {
				t.Errorf("the view is %q, want %q", got, want)
			}
			if res := r.WaitTurnEnd(t, turn); !strings.HasPrefix(res.OutputText(), "\r  0 %\r 10 %\r 20 %") {
				t.Errorf("the log is %q", res.OutputText())
			}
		})
	})

	t.Run("distinguishes stdout and stderr", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			res := r.RunCode(t, "import sys; print('out'); print('err', file=sys.stderr)")
			if res.OutputText(timeline.Stdout) != "out\n" || res.OutputText(timeline.Stderr) != "err\n" {
				t.Errorf("got %q", res.Transcript())
			}
		})
	})
}
