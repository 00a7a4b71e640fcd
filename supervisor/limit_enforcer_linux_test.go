package supervisor

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/workers"
)

// lastForkAllowance returns the fork fields of the last limit update.
func (p *fakeProcess) lastForkAllowance() (a proctree.LimitUpdate) {
	p.withLock(func() { a.ForkPolicy, a.ApplyInSandbox = p.lastAllowance.ForkPolicy, p.lastAllowance.ApplyInSandbox })
	return a
}

func TestProcessLimit_AllSessions(t *testing.T) {
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
			sup.launcher = func(c *launch.StartConfig) (l *launchResult, _ error) {
				if want := []int{100, 40}[i]; c.Limits.Processes != want {
					t.Errorf("the command allows %d processes, want %d", c.Limits.Processes, want)
				}
				p[i], l = newFakeProcess(t)
				return l, nil
			}
			spec := workers.Spec{Name: "fake", Path: dir, Limits: workers.Limits{Processes: limit}}
			if s[i], err = sup.Open(t.Context(), []string{"one", "two"}[i], spec); err != nil {
				t.Fatal(err)
			}
			p[i].sendReady()
		}
		tasks := func(i, n int) { p[i].withLock(func() { p[i].usage.Tasks = n }) }
		want := func(i int, may proctree.ForkPolicy, uncounted bool) {
			t.Helper()
			if got, want := p[i].lastForkAllowance(), (proctree.LimitUpdate{ForkPolicy: may, ApplyInSandbox: uncounted}); got != want {
				t.Errorf("session %d was allowed %+v, want %+v", i, got, want)
			}
		}

		tasks(0, 80)
		turn := submitTurn(t, s[0], "fork")
		p[0].advanceTime(time.Second)
		want(0, proctree.ForksUnchanged, false)
		p[0].sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
		p[0].advanceTime(time.Second)

		tasks(0, 70) // in a turn that is over before the measurement
		p[0].sendFrames(ipc.Idle{Turn: submitTurn(t, s[0], "end a few"), Outcome: ipc.OutcomeOK})
		p[0].advanceTime(time.Second)

		tasks(1, 31) // below its own limit, but above the total with the other session
		turn = submitTurn(t, s[1], "fork")
		p[1].advanceTime(2 * time.Second)
		want(1, proctree.ForksRefused, true)
		if got := recordedLimits(s[1]); !slices.Equal(got, []string{"processes: 101 of 100 by all sessions together; no more can be started"}) {
			t.Errorf("got %q", got)
		}
		tasks(1, 30)
		p[1].advanceTime(2 * time.Second)
		tasks(1, 29)
		p[1].advanceTime(2 * time.Second)
		want(1, proctree.ForksUnchanged, false)
		tasks(1, 35)
		p[1].advanceTime(2 * time.Second)
		want(1, proctree.ForksRefused, true)
		p[1].sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
		want(1, proctree.ForksAllowed, true) // while it is idle, nothing would release it again

		tasks(1, 80)
		submitTurn(t, s[1], "fork")
		p[1].advanceTime(2 * time.Second)
		ended := 0
		for _, h := range p[1].takeReceived() {
			if n, ok := h.what.(int); ok {
				ended = n
			}
		}
		if ended != 27 {
			t.Errorf("%d of its tasks were killed, want its share of the excess", ended)
		}
		if all := p[0].takeReceived(); slices.ContainsFunc(all, func(h receivedItem) bool { _, is := h.what.(int); return is }) {
			t.Errorf("the idle session lost processes: %+v", all)
		}
	})
}
