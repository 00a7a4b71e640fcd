//go:build linux || windows

package python_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestRun(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, o python.Options) {
		t.Parallel()
		s := openSession(t, o)
		run := func(t *testing.T, code string, o *session.RunOptions) *session.Result {
			t.Helper()
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			got, err := session.Run(ctx, s.Session, code, o)
			if err != nil {
				t.Fatalf("%.60q: %v", code, err)
			}
			return got
		}

		t.Run("text, standard error and the value are apart", func(t *testing.T) {
			got := run(t, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7", nil)
			if got.Text != "out\nerr\n" || got.Stderr != "err\n" || got.Value != "42" || got.LeftOut != (session.LeftOut{}) {
				t.Errorf("got %+v", got)
			}
			if got := run(t, "print('no newline', end='')", nil); got.Text != "no newline" || got.Value != "" {
				t.Errorf("got %q, %q", got.Text, got.Value)
			}
			if got := run(t, "'a' * 10000", nil); len(got.Value) != 10002 || got.Text != "" {
				t.Errorf("a large value: got %d bytes, %q", len(got.Value), got.Text)
			}
			if got := run(t, "exec(compile('1\\n', 'a', 'single')); exec(compile('2\\n', 'a', 'single'))", nil); got.Text != "1\n" || got.Value != "2" {
				t.Errorf("two echoes: got %q, %q", got.Text, got.Value)
			}
		})

		t.Run("JSON of any size arrives whole", func(t *testing.T) {
			got := run(t, "import json; print(json.dumps(list(range(100000))))", nil)
			var list []int
			if err := json.Unmarshal([]byte(got.Text), &list); err != nil || len(list) != 100000 || got.LeftOut != (session.LeftOut{}) {
				t.Errorf("got %d numbers in %d bytes, %v, %+v", len(list), len(got.Text), err, got.LeftOut)
			}
		})

		t.Run("a picture of 12 MB arrives whole", func(t *testing.T) {
			const size = 12_000_000
			got := run(t, fmt.Sprintf("class P:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes(%d)\nP()", size-8), nil)
			if len(got.Displays) != 1 || len(got.Displays[0].Data["image/png"]) != size || got.LeftOut != (session.LeftOut{}) {
				t.Errorf("got %d displays, left out %+v, notices %q", len(got.Displays), got.LeftOut, got.Notices)
			}
		})

		t.Run("an error has its name, message and traceback", func(t *testing.T) {
			for code, want := range map[string][3]string{
				"def f(): 1 / 0\nf()":                     {"ZeroDivisionError", "division by zero", "in f"},
				"raise KeyError('k')":                     {"KeyError", "'k'", "KeyError: 'k'"},
				"import sys; sys.exit(3)":                 {"SystemExit", "3", ""},
				"def f(:":                                 {"SyntaxError", "", "SyntaxError"},
				"input('name? ')":                         {"EOFError", "EOF when reading a line", "EOFError"},
				"breakpoint()":                            {"bdb.BdbQuit", "", "BdbQuit"},
				"import os; os.read(0, 1)\nraise OSError": {"OSError", "", "OSError"},
			} {
				if !seesReaders && strings.Contains(code, "os.read") {
					continue
				}
				got := run(t, code, nil)
				if e := got.Error; got.Outcome != timeline.OutcomeError || e == nil || e.Name != want[0] || !strings.Contains(e.Message, want[1]) || !strings.Contains(e.Traceback, want[2]) {
					t.Errorf("%q: got %s, %+v", code, got.Outcome, got.Error)
				}
			}
		})

		t.Run("code that swallows the interrupt ends all the same", func(t *testing.T) {
			got := run(t, "import time\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass", &session.RunOptions{Timeout: 100 * time.Millisecond, Grace: time.Second})
			if !got.TimedOut || got.Outcome != timeline.OutcomeInterrupted || got.Error == nil {
				t.Errorf("got %+v", got)
			}
			got = run(t, "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('saved')\n'partial'", &session.RunOptions{Timeout: 100 * time.Millisecond})
			if !got.TimedOut || got.Outcome != timeline.OutcomeOK || got.Text != "saved\n" || got.Value != "'partial'" || got.Err() != nil {
				t.Errorf("code that handles the interrupt: got %q, %q, timed out %v, outcome %s, error %v", got.Text, got.Value, got.TimedOut, got.Outcome, got.Err())
			}
			late, err := session.Run(t.Context(), lateAnswers{s.Session}, "try:\n    time.sleep(60)\nexcept KeyboardInterrupt: pass", &session.RunOptions{Timeout: 100 * time.Millisecond})
			if err != nil || !late.TimedOut || late.Outcome != timeline.OutcomeOK {
				t.Errorf("an answer to the interrupt after the end of the turn: got %+v, %v", late, err)
			}
			got = run(t, "while True:\n    try: input('again? ')\n    except EOFError: pass", &session.RunOptions{Timeout: 300 * time.Millisecond, Grace: time.Second})
			if !got.TimedOut || got.Outcome != timeline.OutcomeInterrupted {
				t.Errorf("code that reads for ever: got %+v", got)
			}
		})

		t.Run("the end of the worker is an error, and the next run has another", func(t *testing.T) {
			got := run(t, "import os; os._exit(3)", nil)
			if got.Outcome != timeline.OutcomeEnded || got.Error == nil || got.Error.Name != "WorkerEnded" || !strings.Contains(got.Error.Message, "exit status 3") {
				t.Errorf("got %+v", got)
			}
			if got = run(t, "'again'", nil); got.Value != "'again'" || len(got.Notices) == 0 {
				t.Errorf("got %+v", got)
			}
		})
	})
}

// The answers of lateAnswers to interrupts come after the end of the turn.
type lateAnswers struct{ session.Session }

func (s lateAnswers) Interrupt(ctx context.Context, turn uint64) (session.InterruptResult, error) {
	result, err := s.Session.Interrupt(ctx, turn)
	if err != nil {
		return result, err
	}
	if _, err := s.Wait(context.WithoutCancel(ctx), turn, nil); err != nil {
		return result, err
	}
	select {
	case <-ctx.Done():
		return result, ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return result, nil
	}
}
