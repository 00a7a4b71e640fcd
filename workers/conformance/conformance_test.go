package conformance_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Programs: []testmain.Program{fakeworker.Program}})
}

// fakeDialect returns the language of the fake worker.
func fakeDialect() conformance.Dialect {
	return conformance.Dialect{
		Print:   func(text string) string { return "print " + text },
		Ask:     func(prompt string) string { return "wait " + prompt },
		Shell:   func(command string) string { return "sh " + command },
		Call:    func(text string) string { return "call conform " + text },
		Group:   func(text string) string { return "group birds con-form " + text },
		Error:   "error ValueError no",
		Sleep:   "sleep",
		Loop:    "sleep",
		Exit:    "exit 3",
		Whole:   "print",
		Partial: "print \\",
		Broken:  "print ?",
		Word:    "pri",
		Match:   "print",

		Define:   "print",
		Variable: "answer",
	}
}

func runChecks(t *testing.T, spec workers.Spec, d conformance.Dialect, timeout time.Duration) []conformance.Result {
	t.Helper()
	results := conformance.Run(t.Context(), spec, &conformance.Options{Dialect: d, Timeout: timeout})
	if len(results) < 20 {
		t.Fatalf("got %d results, want one of every check", len(results))
	}
	return results
}

// brokenPromises names the promises that a worker does not keep.
func brokenPromises(results []conformance.Result) []string {
	var names []string
	for _, r := range results {
		if r.Err != nil {
			names = append(names, r.Name)
		}
	}
	return names
}

func TestRun(t *testing.T) {
	t.Parallel()

	t.Run("a conforming worker passes every check", func(t *testing.T) {
		t.Parallel()
		for name, o := range map[string]fakeworker.Options{
			"as it is":            {},
			"signals itself":      {Mode: ipc.InterruptBySelf},
			"prints at the start": {Start: "print"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, r := range runChecks(t, fakeworker.NewSpec(testexec.OwnPath(), &o), fakeDialect(), time.Minute) {
					if r.Err != nil || r.Skipped != "" && !strings.Contains(r.Skipped, "does not offer sync markers") {
						t.Errorf("%s: %v %s", r.Name, r.Err, r.Skipped)
					}
				}
			})
		}
	})

	// A start may take long, and most checks can reuse a running worker.
	t.Run("reuses an idle worker for the next check", func(t *testing.T) {
		t.Parallel()
		spec := fakeworker.NewSpec(testexec.OwnPath(), nil)
		starts := 0
		spec.Preparations = []workers.Preparation{{Key: "start", Run: func(context.Context, func(workers.PreparationProgress)) (workers.PreparationResult, error) {
			starts++
			return workers.PreparationResult{}, nil
		}}}
		for _, r := range runChecks(t, spec, fakeDialect(), time.Minute) {
			if r.Err != nil {
				t.Errorf("%s: %v", r.Name, r.Err)
			}
		}
		if starts != 9 {
			t.Errorf("a worker was started %d times, want 9: for the first frame, and for each of the eight checks that end one", starts)
		}
	})

	t.Run("says if a check fails only after other checks", func(t *testing.T) {
		t.Parallel()
		d, printed := fakeDialect(), 0
		d.Print = func(text string) string {
			if printed++; printed == 1 {
				return "late " + text
			}
			return "print " + text
		}
		results := runChecks(t, fakeworker.NewSpec(testexec.OwnPath(), nil), d, time.Minute)
		const promise = "output of a turn comes before its idle"
		if got := brokenPromises(results); !slices.Equal(got, []string{promise}) {
			t.Fatalf("broken are %q, want only %q", got, promise)
		}
		for _, r := range results {
			if r.Err != nil && !strings.HasPrefix(r.Err.Error(), "only in a worker that has run other checks: the turn printed") {
				t.Errorf("got %v", r.Err)
			}
		}
	})

	t.Run("skips checks of capabilities that the worker lacks", func(t *testing.T) {
		t.Parallel()
		results := runChecks(t, fakeworker.NewSpec(testexec.OwnPath(), &fakeworker.Options{NoMarkers: true, NoQuery: true, NoCalls: true}), fakeDialect(), time.Minute)
		var skipped int
		for _, r := range results {
			if r.Err != nil {
				t.Errorf("%s: %v", r.Name, r.Err)
			}
			if r.Skipped != "" {
				skipped++
			}
		}
		if skipped != 13 {
			t.Errorf("got %d checks skipped, want the order, four queries, six calls, two of children", skipped)
		}
	})

	t.Run("skips what needs a dialect if there is none", func(t *testing.T) {
		t.Parallel()
		for _, r := range runChecks(t, fakeworker.NewSpec(testexec.OwnPath(), nil), conformance.Dialect{}, time.Minute) {
			if r.Err != nil {
				t.Errorf("%s: %v", r.Name, r.Err)
			}
		}
	})

	// The suite must find faults. Each dialect or start makes the fake worker break one promise.
	t.Run("names the promise that a worker breaks", func(t *testing.T) {
		t.Parallel()
		type fault struct {
			options fakeworker.Options
			change  func(*conformance.Dialect)
			want    string
		}
		for name, f := range map[string]fault{
			"another version": {
				options: fakeworker.Options{Start: "wrongversion"},
				want:    "the first frame is worker_ready with this protocol",
			},
			"no readiness": {
				options: fakeworker.Options{Start: "exit 4"},
				want:    "idle of turn 0 follows",
			},
			"garbage first": {
				options: fakeworker.Options{Start: "garbage"},
				want:    "the first frame is worker_ready with this protocol",
			},
			"idle first": {
				options: fakeworker.Options{Start: "wrongfirst"},
				want:    "the first frame is worker_ready with this protocol",
			},
			"output after idle": {
				change: func(d *conformance.Dialect) { d.Print = func(text string) string { return "late " + text } },
				want:   "output of a turn comes before its idle",
			},
			"a turn that cannot be interrupted": {
				change: func(d *conformance.Dialect) { d.Sleep = "stuck" },
				want:   "an interrupt ends a sleep",
			},
			"an interrupt that is only pending": {
				change: func(d *conformance.Dialect) {
					d.Print = func(text string) string { // the loop ignores every interrupt after that word
						return "print " + strings.TrimPrefix(text, "started")
					}
					d.Sleep, d.Loop = "print started\nsleep", "busy started"
				},
				want: "an interrupt ends a loop",
			},
			"a call that is never made": {
				change: func(d *conformance.Dialect) { d.Call = func(text string) string { return "print " + text } },
				want:   "a call of a host function gets its result",
			},
			"a call that is not cancelled": {
				change: func(d *conformance.Dialect) { d.Call = func(string) string { return "rawcall 1 conform" } },
				want:   "an interrupt ends a call, and cancels it",
			},
			"a group that is not opened": {
				change: func(d *conformance.Dialect) {
					d.Group = func(text string) string { return "call birds.con-form " + text }
				},
				want: "code opens a group of functions and calls one",
			},
			"a group that is opened each time": {
				change: func(d *conformance.Dialect) {
					d.Group = func(text string) string { return "call _open birds\ncall birds.con-form " + text }
				},
				want: "code opens a group of functions and calls one",
			},
			"a group that failed and is used": {
				change: func(d *conformance.Dialect) { d.Group = func(string) string { return "rawcall 1 _open" } },
				want:   "a group that cannot be opened is an error of the language",
			},
			"no question": {
				change: func(d *conformance.Dialect) { d.Ask = func(string) string { return "print Ada" } },
				want:   "a read of standard input asks, and gets the answer",
			},
			"a frame of the wrong type": {
				change: func(d *conformance.Dialect) { d.Error = "wrongtype" },
				want:   "an error of the language ends the turn, not the worker",
			},
			"an end without session_end": {
				change: func(d *conformance.Dialect) { d.Exit = "die 3" },
				want:   "an exit of the language ends the session with its status",
			},
			"a channel that a child inherits": {
				options: fakeworker.Options{Start: "leak"},
				want:    "children do not inherit the channel",
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := fakeDialect()
				if f.change != nil {
					f.change(&d)
				}
				results := runChecks(t, fakeworker.NewSpec(testexec.OwnPath(), &f.options), d, 2*time.Second)
				if i := slices.IndexFunc(results, func(r conformance.Result) bool { return r.Name == f.want }); i >= 0 && results[i].Skipped != "" {
					t.Skipf("not on this system: %s", results[i].Skipped)
				}
				got := brokenPromises(results)
				if !slices.Contains(got, f.want) {
					t.Errorf("got %q, want %q among them", strings.Join(got, "; "), f.want)
				}
			})
		}
	})

	t.Run("says why a worker cannot start", func(t *testing.T) {
		t.Parallel()
		results := conformance.Run(t.Context(), workers.Spec{Name: "x", Path: "/nowhere/at/all"}, nil)
		if len(results) == 0 || results[0].Skipped != "" {
			t.Fatalf("got %v, want a first check that tried to start it", results)
		}
		for _, r := range results {
			if r.Skipped != "" { // because there is no dialect
				continue
			}
			if r.Err == nil || !strings.Contains(r.Err.Error(), "/nowhere/at/all") {
				t.Fatalf("%s: got %v, want an error that names the path", r.Name, r.Err)
			}
		}
		results = conformance.Run(t.Context(), workers.Spec{}, nil)
		if len(results) != 1 || results[0].Err == nil {
			t.Errorf("got %v for no spec at all, want one error", results)
		}
	})
}
