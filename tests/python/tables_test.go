//go:build linux

package python_test

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// openPandas opens a session that has imported pandas.
func openPandas(t *testing.T) *sessionkit.TestSession {
	t.Helper()
	const path = "/usr/bin/python3" // scripts/setup-dev installs its pandas
	if exec.Command(path, "-c", "import pandas").Run() != nil {
		t.Skip("needs " + path + " with pandas")
	}
	s := openSession(t, python.Options{Path: path})
	s.RunCode(t, "import pandas as pd, numpy as np, time")
	return s
}

// showTable runs code and returns the table that it shows.
func showTable(t *testing.T, s *sessionkit.TestSession, code string) *session.Table {
	t.Helper()
	r := s.RunCode(t, code)
	for _, e := range r.Events {
		d, _ := e.Body.(timeline.Display)
		if data, ok := d.Data[timeline.MIMETable]; ok {
			table, err := session.DecodeTable(data)
			if err != nil {
				t.Fatal(err)
			}
			return table
		}
	}
	t.Fatalf("%s shows no table: %s", code, r.Transcript())
	return nil
}

func TestTables(t *testing.T) {
	t.Parallel()

	t.Run("rows come from the runtime while it is idle", func(t *testing.T) {
		t.Parallel()
		s := openPandas(t)
		table := showTable(t, s, "f = pd.DataFrame({'n': range(200)}); f")
		q := session.TableQuery{Handle: table.Handle, From: 199, Count: 10}
		page, err := s.TablePage(t.Context(), q)
		if err != nil || page.Table == nil || len(page.Table.Rows) != 1 || page.Table.Rows[0][0] != "199" {
			t.Errorf("got %+v, %v", page.Table, err)
		}
		wait, goOn := newGate(t)
		turn := s.StartTurn(t, wait)
		if _, err := s.TablePage(t.Context(), q); !errors.Is(err, session.ErrBusy) {
			t.Errorf("while code runs: got %v", err)
		}
		goOn()
		s.FinishTurn(t, turn)
		s.RestartWorker(t)
		s.RunCode(t, "import pandas as pd")
		showTable(t, s, "f = pd.DataFrame({'n': range(200)}); f")
		if page, err := s.TablePage(t.Context(), q); err != nil || page.Table != nil {
			t.Errorf("a table of the worker before: got %+v, %v", page.Table, err)
		}
	})

	// A cell may be of a class of the user, whose text never comes.
	t.Run("an answer that takes longer than a second is given up", func(t *testing.T) {
		t.Parallel()
		s := openPandas(t)
		table := showTable(t, s, `class Cell:
    slow = False
    def __repr__(self):
        while Cell.slow: time.sleep(0.01)
        return 'a cell'
f = pd.DataFrame({'c': [Cell()]})
f`)
		s.RunCode(t, "Cell.slow = True")
		started := time.Now()
		if page, err := s.TablePage(t.Context(), session.TableQuery{Handle: table.Handle, Count: 1}); session.KindOf(err) != session.KindNoAnswer {
			t.Errorf("got %+v, %v", page, err)
		}
		if took := time.Since(started); took < 900*time.Millisecond {
			t.Errorf("it was given up after %v", took)
		}
		wantCleanTurn(t, s)
	})

	// It logs the durations. On a busy machine, the first answer of a kind may be late.
	t.Run("a hundred thousand rows are sorted and searched", func(t *testing.T) {
		t.Parallel()
		s := openPandas(t)
		s.RunCode(t, `n = 10 ** 5; r = np.random.default_rng(1)
f = pd.DataFrame({'n': r.permutation(n), 'x': r.normal(size=n), 's': ['name %d' % i for i in r.permutation(n)], 't': pd.Timestamp('2024', tz='UTC') + pd.to_timedelta(r.integers(0, 10 ** 6, n), unit='s')})`)
		timed := func(what string, do func()) {
			started := time.Now()
			do()
			t.Logf("%s: %.0f ms", what, time.Since(started).Seconds()*1000)
		}
		var table *session.Table
		timed("display", func() { table = showTable(t, s, "f") })
		ask := func(q session.TableQuery) func() {
			return func() {
				q.Handle, q.Count = table.Handle, 50
				page, err := s.TablePage(t.Context(), q)
				for range 5 {
					if session.KindOf(err) == session.KindNoAnswer {
						t.Logf("%+v: no answer in time", q)
						page, err = s.TablePage(t.Context(), q)
					}
				}
				if err != nil || page.Table == nil || len(page.Table.Rows) == 0 {
					t.Errorf("%+v: got %+v, %v", q, page, err)
				}
			}
		}
		timed("the last page", ask(session.TableQuery{From: 99_950}))
		for column, name := range []string{"integers", "floats", "texts", "times"} {
			timed("sort by "+name, ask(session.TableQuery{Sort: &session.TableSort{Column: column}}))
		}
		timed("search", ask(session.TableQuery{Find: "NAME 77"}))
	})
}
