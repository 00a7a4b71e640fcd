package supervisor

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/workers"
)

// mayFork returns what the worker was allowed last.
func (p *fakeProcess) mayFork() (a host.Allowance) {
	p.change(func() { a.Forks, a.Uncounted = p.allowed.Forks, p.allowed.Uncounted })
	return a
}

func TestProcesses_OfAllSessionsTogetherBoundEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		sup, err := New(&Options{Dir: dir, Processes: 100})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sup.Close() }()
		var p [2]*fakeProcess
		var s [2]*Session
		for i, limit := range []int{0, 40} {
			sup.launcher = func(c *host.Command) (l *launched, _ error) {
				if want := []int{100, 40}[i]; c.Limits.Processes != want {
					t.Errorf("a sandbox would allow %d, want %d", c.Limits.Processes, want)
				}
				p[i], l = launchFake(t)
				return l, nil
			}
			spec := workers.Spec{Name: "fake", Path: dir, Limits: workers.Limits{Processes: limit}}
			if s[i], err = sup.Open(t.Context(), []string{"one", "two"}[i], spec); err != nil {
				t.Fatal(err)
			}
			p[i].ready()
		}
		tasks := func(i, n int) { p[i].change(func() { p[i].usage.Tasks = n }) }
		want := func(i int, may host.Forks, uncounted bool) {
			t.Helper()
			if got, want := p[i].mayFork(), (host.Allowance{Forks: may, Uncounted: uncounted}); got != want {
				t.Errorf("session %d may %+v, want %+v", i, got, want)
			}
		}

		tasks(0, 80)
		turn := submit(t, s[0], "fork")
		p[0].later(time.Second)
		want(0, host.ForksKept, false)
		p[0].say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
		p[0].later(time.Second)

		tasks(0, 70) // in a turn that is over before anybody looks
		p[0].say(ipc.Idle{Turn: submit(t, s[0], "end a few"), Outcome: ipc.OutcomeOK})
		p[0].later(time.Second)

		tasks(1, 31) // below its own limit, and with the other one beyond that of both
		turn = submit(t, s[1], "fork")
		p[1].later(2 * time.Second)
		want(1, host.ForksRefused, true)
		if got := limitsMet(s[1]); !slices.Equal(got, []string{"processes: 101 of 100 by all sessions together; no more can be started"}) {
			t.Errorf("got %q", got)
		}
		tasks(1, 30)
		p[1].later(2 * time.Second)
		tasks(1, 29)
		p[1].later(2 * time.Second)
		want(1, host.ForksKept, false)
		tasks(1, 35)
		p[1].later(2 * time.Second)
		want(1, host.ForksRefused, true)
		p[1].say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
		want(1, host.ForksAllowed, true) // while it rests nobody could free it

		tasks(1, 80)
		submit(t, s[1], "fork")
		p[1].later(2 * time.Second)
		ended := 0
		for _, h := range p[1].take() {
			if n, ok := h.what.(int); ok {
				ended = n
			}
		}
		if ended != 27 {
			t.Errorf("%d of its tasks were ended, want its part of those that are too many", ended)
		}
		if all := p[0].take(); slices.ContainsFunc(all, func(h heard) bool { _, is := h.what.(int); return is }) {
			t.Errorf("the session that rests lost processes: %+v", all)
		}
	})
}
