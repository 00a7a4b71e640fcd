package limits

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// openSessions opens several sessions of one supervisor.
func openSessions(t *testing.T, o *supervisor.Options, box *sandbox.Policy, limits ...workers.Limits) (all []*sessionkit.TestSession) {
	t.Helper()
	if box != nil {
		sandboxcheck.RequireNamespaces(t)
	}
	o.Dir = t.TempDir()
	sup, err := supervisor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	for i, l := range limits {
		spec := python.Spec(python.Options{Path: os.Getenv("TURNSTONE_TEST_MATPLOTLIB")})
		spec.Sandbox, spec.Limits, spec.Dir = box, l, t.TempDir()
		s, err := sup.Open(t.Context(), fmt.Sprint("s", i), spec)
		if err != nil {
			t.Fatal(err)
		}
		r := &sessionkit.TestSession{Session: s}
		r.WaitUntilReady(t)
		all = append(all, r)
	}
	return all
}

func TestSharedLimits(t *testing.T) {
	t.Run("bound the processes of all sessions together", func(t *testing.T) {
		withAndWithoutSandbox(t, func(t *testing.T, box *sandbox.Policy) {
			requireForkLimit(t, box)
			s := openSessions(t, &supervisor.Options{Processes: 60}, box, workers.Limits{}, workers.Limits{})
			for _, one := range s {
				one.RunCode(t, forkCode).WantTranscript(t, "")
			}
			s[0].WantOutput(t, "for _ in range(45): fork()", "")
			for range 2 { // until the next check, only the sandbox's limit of 60 for each session applies
				r := s[1].RunCode(t, "import time\nwhile len(children) < 20: fork()\nwhile True: fork(); end_last(); time.sleep(0.01)")
				if r.Failure != "BlockingIOError" || !strings.Contains(r.Transcript(), " of 60 by all sessions together") {
					t.Errorf("got %q %s %q", r.Outcome, r.Failure, r.Transcript())
				}
				s[1].WantOutput(t, "end()", "")
			}
			s[0].WantOutput(t, "x = 41; end()", "")
			s[1].WantOutput(t, "fork(); end()", "")
			s[0].WantOutput(t, "fork(); end(); x + 1", "42\n")
		})
	})

	t.Run("give all sessions the same processors", func(t *testing.T) {
		const mine = "import os; print(*os.sched_getaffinity(0))"
		withAndWithoutSandbox(t, func(t *testing.T, box *sandbox.Policy) {
			s := openSessions(t, &supervisor.Options{CPUs: 1}, box, workers.Limits{}, workers.Limits{}, workers.Limits{CPUs: 2})
			first := s[0].RunCode(t, mine).OutputText()
			if len(strings.Fields(first)) != 1 {
				t.Errorf("got %q, want one", first)
			}
			for _, one := range s[1:] {
				one.WantOutput(t, mine, first)
			}
		})
	})
}
