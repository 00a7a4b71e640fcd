package daemon_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline/render"
	"github.com/turnstone-repl/turnstone/workers"
)

// newWarmDaemon starts a daemon with warm sessions. Its FindSpec uses the directory of the client.
func newWarmDaemon(t testing.TB, change func(*daemon.Options)) *testDaemon {
	return startDaemon(t, func(o *daemon.Options) {
		self := testexec.OwnPath()
		o.FindSpec = func(p protocol.CreateParams) (workers.Spec, error) {
			s := fakeworker.NewSpec(self, nil)
			s.Dir = p.Dir
			return s, nil
		}
		o.WarmPools = []daemon.WarmPoolOptions{{Language: "fake", Count: 2}}
		if change != nil {
			change(o)
		}
	})
}

// waitForPool waits until the pool is as wanted.
func (d *testDaemon) waitForPool(c *client.Client, what string, want func(protocol.WarmPool) bool) protocol.WarmPool {
	d.t.Helper()
	var now protocol.WarmPool
	wait.Until(d.t, what, func() bool {
		i, err := c.DaemonInfo(d.t.Context())
		if err != nil || len(i.WarmPools) != 1 {
			d.t.Fatalf("%+v, %v", i, err)
		}
		now = i.WarmPools[0]
		return want(now)
	})
	return now
}

// wantResult runs code in a session and checks its result.
func (d *testDaemon) wantResult(c *client.Client, name, code, want string) {
	d.t.Helper()
	reply, err := c.StartTurn(d.t.Context(), protocol.StartParams{Session: name, Input: code, WaitMS: processTimeout.Milliseconds()})
	if err != nil {
		d.t.Fatal(err)
	}
	if got := render.Events(reply.Events, nil).Text(); got != want {
		d.t.Errorf("%s printed %q, want %q", name, got, want)
	}
}

func isFull(w protocol.WarmPool) bool { return w.Ready == w.Count }

func TestWarmPool(t *testing.T) {
	t.Parallel()

	t.Run("serves a matching session at once", func(t *testing.T) {
		t.Parallel()
		var sup *supervisor.Supervisor
		r := newWarmDaemon(t, func(o *daemon.Options) { sup = o.Supervisor })
		c := r.dial()
		r.waitForPool(c, "it is filled", isFull)
		pids := make(map[int]bool)
		for _, s := range sup.Sessions() {
			i, _ := s.Info(t.Context())
			pids[i.PID] = true
		}
		for _, name := range []string{"a", "b"} {
			i, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			if i.Name != name || i.State.String() != "idle" || i.Turn != 0 || i.Generation != 1 || !pids[i.PID] {
				t.Errorf("got %+v, want an idle worker that was ready", i)
			}
			r.wantResult(c, name, "print "+name, name+"\n")
		}
		r.waitForPool(c, "it is filled again", isFull)
		if all, err := c.ListSessions(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("%d sessions are listed, %v; want only the sessions of clients", len(all), err)
		}
	})

	t.Run("does not serve a session that starts differently", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		r := newWarmDaemon(t, nil)
		c := r.dial()
		r.waitForPool(c, "it is filled", isFull)
		for i, name := range []string{"first", "second", "third"} {
			s, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: name, Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if s.Dir != dir {
				t.Errorf("%s works in %s", name, s.Dir)
			}
			if i == 1 { // from now on the pool keeps sessions in this directory
				r.waitForPool(c, "it keeps others", func(w protocol.WarmPool) bool { return isFull(w) && w.Dir == dir })
			}
			if i == 2 && s.State.String() != "idle" {
				t.Errorf("the third is %s, want one that was ready", s.State)
			}
		}
	})

	t.Run("discards sessions of a changed interpreter", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "python")
		stamp := func(*workers.Spec) string {
			text, _ := os.ReadFile(file)
			return string(text)
		}
		var sup *supervisor.Supervisor
		r := newWarmDaemon(t, func(o *daemon.Options) { sup, o.StartStamp = o.Supervisor, stamp })
		c := r.dial()
		r.waitForPool(c, "it is filled", isFull)
		old := make(map[int]bool)
		for _, s := range sup.Sessions() {
			i, _ := s.Info(t.Context())
			old[i.PID] = true
		}
		if err := os.WriteFile(file, []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
		i, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if old[i.PID] {
			t.Error("a client got an old worker")
		}
	})

	t.Run("runs the start-up code once and hides it", func(t *testing.T) {
		t.Parallel()
		r := newWarmDaemon(t, func(o *daemon.Options) { o.WarmPools[0].Code = "print made" })
		c := r.dial()
		r.waitForPool(c, "it is filled", isFull)
		i, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "a"})
		if err != nil || i.Turn != 1 {
			t.Fatalf("%+v, %v; want only the turn of the code", i, err)
		}
		r.wantResult(c, "a", "print mine", "mine\n")
	})

	t.Run("reports failing start-up code and still opens sessions", func(t *testing.T) {
		t.Parallel()
		r := newWarmDaemon(t, func(o *daemon.Options) { o.WarmPools[0].Code = "nonsense" })
		c := r.dial()
		w := r.waitForPool(c, "it fails", func(w protocol.WarmPool) bool { return w.Failure != "" })
		if !strings.Contains(w.Failure, "the warm-up code: SyntaxError: no command") || w.Ready != 0 {
			t.Errorf("%+v", w)
		}
		if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		r.wantResult(c, "a", "print mine", "mine\n")
	})

	t.Run("makes room for the sessions of clients", func(t *testing.T) {
		t.Parallel()
		r := newWarmDaemon(t, func(o *daemon.Options) {
			sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir(), MaxSessions: 3})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = sup.Close() })
			o.Supervisor = sup
		})
		c := r.dial()
		r.waitForPool(c, "it is filled", isFull)
		for _, name := range []string{"a", "b", "c"} {
			if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: name, Dir: t.TempDir()}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "d"}); err == nil || !strings.Contains(err.Error(), "too many sessions") {
			t.Errorf("the fourth of three: %v", err)
		}
	})

	t.Run("gives up a pending session for a client", func(t *testing.T) {
		t.Parallel()
		var sup *supervisor.Supervisor
		r := newWarmDaemon(t, func(o *daemon.Options) {
			var err error
			if sup, err = supervisor.New(&supervisor.Options{Dir: t.TempDir(), MaxSessions: 1}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = sup.Close() })
			o.Supervisor, o.WarmPools[0].Code = sup, "sleep"
		})
		c := r.dial()
		wait.Until(t, "a warm session is starting", func() bool { return len(sup.Sessions()) == 1 })
		if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		r.wantResult(c, "a", "print mine", "mine\n")
		if i, err := c.DaemonInfo(t.Context()); err != nil || i.WarmPools[0].Failure != "" {
			t.Errorf("%+v, %v", i.WarmPools, err)
		}
	})
}

// This benchmark measures the time from session/create to an idle session, for a warm session and
// for a new one. It uses the smallest worker: a real runtime adds its own start to the second time.
func BenchmarkWarm(b *testing.B) {
	for name, dir := range map[string]string{"ready": "", "started": b.TempDir()} {
		b.Run(name, func(b *testing.B) {
			r := newWarmDaemon(b, nil)
			c := r.dial()
			for i := range b.N {
				b.StopTimer()
				r.waitForPool(c, "it is filled", isFull)
				p := protocol.CreateParams{Name: strconv.Itoa(i), Dir: dir}
				if dir != "" {
					p.Dir = b.TempDir() // another one each time
				}
				b.StartTimer()
				if _, err := c.CreateSession(b.Context(), p); err != nil {
					b.Fatal(err)
				}
				s := c.Session(p.Name)
				if _, err := s.Wait(b.Context(), 0, nil); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := s.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
