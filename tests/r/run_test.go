//go:build linux || windows

package r_test

import (
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestRun(t *testing.T) {
	t.Parallel()
	s := openSession(t, r.Options{})
	run := func(t *testing.T, code string, o *session.RunOptions) *session.Result {
		t.Helper()
		got, err := session.Run(t.Context(), s.Session, code, o)
		if err != nil {
			t.Fatalf("%q: %v", code, err)
		}
		return got
	}

	t.Run("the value is the last echo, and earlier ones are text", func(t *testing.T) {
		for _, c := range []struct{ code, text, value string }{
			{"6 * 7", "", "[1] 42"},
			{"x <- 5; x", "", "[1] 5"}, // the value is the same object as the one before
			{"x <- 5\nx\nx", "[1] 5\n", "[1] 5"},
			{"1; 2", "[1] 1\n", "[1] 2"},
			{"1; cat('a\\n'); 2; cat('b\\n')", "[1] 1\na\nb\n", "[1] 2"},
			{"y <- 1; 'q'", "", `[1] "q"`},
			{"(y <- 7)", "", "[1] 7"},
			{"NULL", "", "NULL"},
			{"invisible(3)", "", ""},
			{"print(3)", "[1] 3\n", ""},
			{"print.two <- function(x, ...) { cat('one\\n'); message('note'); cat('two\\n') }; structure(1, class = 'two')", "note\n", "one\ntwo"},
			{"structure(1, class = 'two'); structure(2, class = 'two')", "one\ntwo\nnote\nnote\n", "one\ntwo"},
		} {
			if got := run(t, c.code, nil); got.Text != c.text || got.Value != c.value || got.Outcome != timeline.OutcomeOK {
				t.Errorf("%q: got %s, text %q, value %q; want %q and %q", c.code, got.Outcome, got.Text, got.Value, c.text, c.value)
			}
		}
	})

	t.Run("large echoes in a row are told apart", func(t *testing.T) {
		got := run(t, "seq(1, 3000); seq(5000, 9000)", nil)
		if len(got.Value) < 4096 || !strings.Contains(got.Value[:20], "5000") || len(got.Text) < 4096 || strings.Contains(got.Text, "5000") {
			t.Errorf("got value %.40q, text %.40q", got.Value, got.Text)
		}
	})

	t.Run("errors and interrupts have a name", func(t *testing.T) {
		got := run(t, "f <- function() stop('bad')\nf()", nil)
		if got.Outcome != timeline.OutcomeError || got.Error == nil || got.Error.Message != "bad" && got.Error.Message != "Error in f() : bad" || got.Error.Traceback == "" {
			t.Errorf("got %+v, %+v", got, got.Error)
		}
		got = run(t, "Sys.sleep(60)", &session.RunOptions{Timeout: 100 * time.Millisecond})
		if !got.TimedOut || got.Outcome != timeline.OutcomeInterrupted || got.Error == nil || got.Error.Name == "" {
			t.Errorf("got %+v, %+v", got, got.Error)
		}
	})

	t.Run("input is an end of file, or the answer", func(t *testing.T) {
		if got := run(t, "readline('name? ')", nil); got.Value != `[1] ""` {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("a quit is the end of the worker", func(t *testing.T) {
		got := run(t, "cat('bye\\n'); quit(status = 4)", nil)
		if got.Outcome != timeline.OutcomeEnded || got.Error == nil || !got.Error.Ended || got.Text != "bye\n" {
			t.Errorf("got %+v, %+v", got, got.Error)
		}
		if got = run(t, "1", nil); got.Value != "[1] 1" || len(got.Notices) == 0 {
			t.Errorf("got %+v", got)
		}
	})
}
