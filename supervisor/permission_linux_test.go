package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/tests/confined"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A grantBook is a GrantStore in memory.
type grantBook struct {
	all map[string][]session.Grant
	err error
}

func (b *grantBook) Kept(workspace string) ([]session.Grant, error) { return b.all[workspace], b.err }

func (b *grantBook) Keep(workspace string, g session.Grant) error {
	if b.err == nil {
		b.all[workspace] = append(b.all[workspace], g)
	}
	return b.err
}

// A confined is a session with a sandbox whose turn runs, and the directories outside of it.
type boxed struct {
	*testing.T
	s        *Session
	p        *fakeProcess
	turn     uint64
	work     string
	a, b     string
	book     *grantBook
	nextCall uint64
}

// inSandbox runs a test in fake time, with a turn of a session that has a sandbox.
func inSandbox(t *testing.T, test func(*testing.T, *boxed)) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(confined.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	c := &boxed{work: filepath.Join(dir, "work"), a: filepath.Join(dir, "a"), b: filepath.Join(dir, "b"), book: &grantBook{all: map[string][]session.Grant{}}}
	for _, d := range []string{c.work, c.a, c.b, filepath.Join(dir, "home")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	spec := workers.Spec{Dir: c.work, Sandbox: &workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone, AskUser: true}}
	inBubble(t, &Options{Grants: c.book, Env: []string{"HOME=" + filepath.Join(dir, "home")}}, spec, func(t *testing.T, s *Session, p *fakeProcess) {
		c.T, c.s, c.p = t, s, p
		p.ready()
		c.turn = submit(t, s, "code")
		p.take()
		test(t, c)
	})
}

// hold has the sandbox hold a call, and returns the stage's number for it.
func (c *boxed) hold(op, path string) uint64 {
	c.Helper()
	c.nextCall++
	c.report(host.Denial{ID: c.nextCall, Op: op, Path: path})
	return c.nextCall
}

func (c *boxed) report(d host.Denial) {
	c.s.denied(c.generation(), d)
	synctest.Wait()
}

func (c *boxed) generation() uint64 {
	i, _ := c.s.Info(c.Context())
	return i.Generation
}

// asked returns the permission that callers see; nil without one.
func (c *boxed) asked() *session.PermissionRequest {
	c.Helper()
	r := now(c.T, c.s, c.turn)
	if r.InputRequest == nil {
		return nil
	}
	if r.State != session.StateWaiting || r.InputRequest.Kind != timeline.InputKindPermission || r.InputRequest.Permission == nil {
		c.Fatalf("got %v, %+v", r.State, r.InputRequest)
	}
	return r.InputRequest.Permission
}

// mustAsk fails unless this is asked now, and returns its number.
func (c *boxed) mustAsk(path string) uint64 {
	c.Helper()
	p := c.asked()
	if p == nil || p.Path != path || p.Grant != (session.Grant{Write: filepath.Dir(path)}) {
		c.Fatalf("got %+v, want a question about %s", p, path)
	}
	return p.ID
}

// answers are the answers to held calls since the last look.
func (c *boxed) answers() (got []permitted) {
	for _, h := range c.p.take() {
		if a, ok := h.what.(permitted); ok {
			got = append(got, a)
		}
	}
	return got
}

func (c *boxed) mustAnswer(want ...permitted) {
	c.Helper()
	if got := c.answers(); !slices.Equal(got, want) {
		c.Fatalf("the stage was told %v, want %v", got, want)
	}
}

// recorded returns the events of a kind.
func recorded[B timeline.Body](s *Session) (all []B) {
	for _, e := range s.Log().EventsSince(0) {
		if b, ok := e.Body.(B); ok {
			all = append(all, b)
		}
	}
	return all
}

// reset starts a new worker, and a turn in it.
func (c *boxed) reset() {
	c.Helper()
	c.p.change(func() { c.p.dies = host.Hangup })
	c.s.launcher = func(*host.Command) (l *launched, err error) { c.p, l = launchFake(c.T); return l, nil }
	if err := c.s.Reset(c.Context()); err != nil {
		c.Fatal(err)
	}
	c.p.ready()
	c.turn = submit(c.T, c.s, "code")
	c.p.take()
}

func (c *boxed) allow(g session.Grant) {
	c.Helper()
	if err := c.s.As("ada").Allow(c.Context(), g); err != nil {
		c.Fatal(err)
	}
}

func (c *boxed) permit(id uint64, ok bool) {
	c.Helper()
	if err := c.s.As("ada").AnswerPermission(c.Context(), id, ok); err != nil {
		c.Fatal(err)
	}
}

func TestPermission_AYesGivesTheDirectoryAndLetsTheCallGoOn(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		call := c.hold("write", c.a+"/x")
		c.permit(c.mustAsk(c.a+"/x"), true)
		var got []any
		for _, h := range c.p.take() {
			got = append(got, h.what)
		}
		if want := []any{granted{c.a}, permitted{call, true}}; !slices.Equal(got, want) {
			t.Errorf("the stage was told %v, want %v", got, want)
		}
		if r := now(c.T, c.s, c.turn); r.State != session.StateRunning || r.InputRequest != nil {
			t.Errorf("got %+v", r)
		}
		if got := recorded[timeline.AccessGranted](c.s); !slices.Equal(got, []timeline.AccessGranted{{Write: c.a, Author: "ada"}}) {
			t.Errorf("got %+v", got)
		}
		if i, _ := c.s.Info(t.Context()); !slices.Equal(i.Grants, []session.Grant{{Write: c.a}}) || i.Sandbox != "workspace, network none" {
			t.Errorf("got %+v of %q", i.Grants, i.Sandbox)
		}
		again := c.hold("create", c.a+"/y") // it was on its way
		c.mustAnswer(permitted{again, true})
	})
}

func TestPermission_ANoIsRememberedUntilSomebodyAllowsIt(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		first := c.hold("write", c.a+"/x")
		c.permit(c.mustAsk(c.a+"/x"), false)
		c.mustAnswer(permitted{first, false})
		second := c.hold("write", c.a+"/y")
		c.mustAnswer(permitted{second, false})
		if p := c.asked(); p != nil {
			t.Errorf("it was asked again: %+v", p)
		}
		if got, want := recorded[timeline.AccessDenied](c.s), []timeline.AccessDenied{{Op: "write", Path: c.a + "/x"}, {Op: "write", Path: c.a + "/y"}}; !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		c.allow(session.Grant{Write: c.a})
		third := c.hold("write", c.a+"/z")
		c.mustAnswer(permitted{third, true})
	})
}

func TestPermission_OneIsAskedAtATimeAndAnAnswerCoversItsDirectory(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		x, other, y := c.hold("write", c.a+"/x"), c.hold("write", c.b+"/o"), c.hold("create", c.a+"/y")
		c.permit(c.mustAsk(c.a+"/x"), true)
		c.mustAnswer(permitted{x, true}, permitted{y, true})
		c.permit(c.mustAsk(c.b+"/o"), false)
		c.mustAnswer(permitted{other, false})
		if p := c.asked(); p != nil {
			t.Errorf("got %+v", p)
		}
	})
}

func TestPermission_AllowCoversHeldCallsBelowIt(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		deep := filepath.Join(c.a, "deep")
		if err := os.Mkdir(deep, 0o700); err != nil {
			t.Fatal(err)
		}
		call := c.hold("write", deep+"/x")
		c.mustAsk(deep + "/x")
		c.allow(session.Grant{Write: c.b})
		c.mustAnswer()
		c.allow(session.Grant{Write: c.a})
		c.mustAnswer(permitted{call, true})
	})
}

func TestPermission_FiveAreAskedInATurn(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		for i := range maxQuestions {
			path := fmt.Sprintf("%s/%d/x", c.a, i)
			c.hold("write", path)
			c.permit(c.mustAsk(path), false)
		}
		c.answers()
		for i := range 7 {
			call := c.hold("write", fmt.Sprintf("%s/more%d/x", c.b, i))
			c.mustAnswer(permitted{call, false})
		}
		if got := len(recorded[timeline.AccessDenied](c.s)); got != maxDenials {
			t.Errorf("%d denials are told, want %d", got, maxDenials)
		}
		c.p.say(ipc.Idle{Turn: c.turn, Outcome: ipc.OutcomeOK})
		if !strings.Contains(now(c.T, c.s, c.turn).Text(), "[the sandbox refused at least 7 more calls]") {
			t.Errorf("got %s", now(c.T, c.s, c.turn).Text())
		}
		c.turn = submit(t, c.s, "more")
		c.hold("write", c.b+"/again")
		c.mustAsk(c.b + "/again")
	})
}

// A pool of threads, or a call that a timer's signals interrupt, is one question.
func TestPermission_CallsThatOneAnswerCoversAreAskedOnce(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		for _, ok := range []bool{false, true} {
			dir := map[bool]string{false: c.a, true: c.b}[ok]
			var want []permitted
			for i := range 2 * maxQuestions {
				want = append(want, permitted{c.hold("write", fmt.Sprintf("%s/%d", dir, i)), ok})
			}
			c.mustAnswer()
			c.permit(c.mustAsk(dir+"/0"), ok)
			c.mustAnswer(want...)
			if p := c.asked(); p != nil {
				t.Errorf("it goes on asking: %+v", p)
			}
		}
	})
}

func TestPermission_SomePlacesAreNeverOffered(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		home := variable(c.s.o.Env, "HOME")
		for _, path := range []string{"/x", home + "/x", filepath.Dir(home) + "/x", home + "/.ssh/id", home + "/.config/gh/hosts.yml", "/proc/1/mem", "/sys/x", "/dev/sda",
			"/run/docker.sock", "/tmp/x", c.a + "/.git/hooks/pre-commit", c.a + "/.vscode/tasks.json", "relative", ""} {
			call := c.hold("write", path)
			c.mustAnswer(permitted{call, false})
			if p := c.asked(); p != nil {
				t.Errorf("%s was offered: %+v", path, p)
			}
		}
		for _, op := range []string{"read", "connect"} {
			call := c.hold(op, c.a+"/x")
			c.mustAnswer(permitted{call, false})
		}
		for _, dir := range []string{"/", home, "/proc", "/tmp", home + "/.ssh", c.a + "/.git", "a", c.a + "/absent"} {
			if err := c.s.Allow(t.Context(), session.Grant{Write: dir}); session.KindOf(err) != session.KindInvalid {
				t.Errorf("allow %s: got %v", dir, err)
			}
		}
	})
}

// The directories of the user's services and of the daemon are not given, even if they are named to write.
func TestPermission_PlacesOfTheDaemonAreNeverGiven(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		run, home := filepath.Join(filepath.Dir(c.work), "run"), variable(c.s.o.Env, "HOME")
		o := c.s.o
		o.Env = append(slices.Clone(o.Env), "XDG_RUNTIME_DIR="+run)
		for _, path := range []string{run, run + "/turnstone", home + "/.local/state/turnstone", home + "/.config/turnstone"} {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			for named, writable := range map[string][]string{"": nil, ", named to write": {path}} {
				spec := c.s.spec
				sandbox := *spec.Sandbox
				sandbox.Writable, sandbox.AcceptPaths = writable, writable
				spec.Sandbox = &sandbox
				for what, g := range map[string]session.Grant{"write": {Write: path, Accept: path}, "read": {Read: path}} {
					if _, err := o.CheckPath(&spec, g); session.KindOf(err) != session.KindInvalid || !strings.Contains(err.Error(), "hidden from sessions") {
						t.Errorf("%s %s%s: got %v", what, path, named, err)
					}
				}
				box, err := confinementOf(&spec, &o, "", t.TempDir(), filepath.Join(t.TempDir(), "files"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := box.sandbox.Plan(); (err != nil) != (writable != nil) {
					t.Errorf("a start%s: got %v", named, err)
				}
			}
		}
		spec := c.s.spec
		spec.Dir = home + "/.local/state/turnstone"
		box, err := confinementOf(&spec, &o, "", t.TempDir(), filepath.Join(t.TempDir(), "files"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := box.sandbox.Plan(); err == nil || !strings.Contains(err.Error(), "hidden from sessions") {
			t.Errorf("a start in %s: got %v", spec.Dir, err)
		}
	})
}

// Of a directory that is never given, such as the home directory, a file may be.
func TestPermission_AFileWhoseDirectoryIsNotGivenIsOfferedAlone(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		notes := filepath.Join(variable(c.s.o.Env, "HOME"), "notes")
		profile := filepath.Join(variable(c.s.o.Env, "HOME"), ".profile")
		for _, path := range []string{notes, profile} {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for op, path := range map[string]string{"remove": notes, "rename": notes, "write": profile} {
			c.mustAnswer(permitted{c.hold(op, path), false})
		}
		call := c.hold("write", notes)
		if p := c.asked(); p == nil || p.Grant != (session.Grant{Write: notes}) {
			t.Fatalf("got %+v", p)
		}
		c.permit(c.asked().ID, true)
		var got []any
		for _, h := range c.p.take() {
			got = append(got, h.what)
		}
		if want := []any{granted{notes}, permitted{call, true}}; !slices.Equal(got, want) {
			t.Errorf("the stage was told %v, want %v", got, want)
		}
		c.mustAnswer()
		again := c.hold("write", notes)
		c.mustAnswer(permitted{again, true})
	})
}

// A session sees what a person shows it, in later workers too, and no held call goes on by that.
func TestPermission_WhatIsShownIsNotWritten(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		call := c.hold("write", c.a+"/x")
		c.allow(session.Grant{Read: c.a})
		if got := c.p.take(); len(got) != 1 || got[0].what != (shown{c.a}) {
			t.Errorf("the stage was told %v", got)
		}
		if got := recorded[timeline.AccessGranted](c.s); !slices.Equal(got, []timeline.AccessGranted{{Read: c.a, Author: "ada"}}) {
			t.Errorf("got %+v", got)
		}
		c.permit(c.mustAsk(c.a+"/x"), false)
		c.mustAnswer(permitted{call, false})
		c.allow(session.Grant{Read: c.b, Always: true})
		if got := c.book.all[c.work]; !slices.Equal(got, []session.Grant{{Read: c.b, Always: true}}) {
			t.Errorf("kept: got %+v", got)
		}
		given := []session.Grant{{Read: c.a}, {Write: c.b}, {Read: c.a + "/gone"}}
		box, missing, notices := c.s.o.withGiven(&c.s.spec, given)
		if !slices.Equal(box.Readable, []string{c.a}) || !slices.Equal(box.Writable, []string{c.b}) || !slices.Equal(missing, given[2:]) || len(notices) != 1 {
			t.Errorf("a later worker: got %+v, %q", box, notices)
		}
	})
}

func TestPermission_NoInputGivesIt(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		c.hold("write", c.a+"/x")
		c.mustAsk(c.a + "/x")
		w := now(c.T, c.s, c.turn).InputRequest
		for _, in := range []session.Input{{Data: []byte("yes\n")}, {Data: []byte("y\n"), EOF: true}, {EOF: true}, {}} {
			if _, err := c.s.As("model").Answer(t.Context(), w.ID, in); session.KindOf(err) != session.KindPermission {
				t.Errorf("%q: got %v", in.Data, err)
			}
		}
		_, err := c.s.Submit(t.Context(), "yes")
		if refused, ok := errors.AsType[*session.Error](err); !errors.Is(err, session.ErrWaiting) || !ok || refused.InputRequest.Permission == nil || !strings.Contains(err.Error(), "a person") {
			t.Errorf("got %v", err)
		}
		c.mustAnswer()
		c.mustAsk(c.a + "/x")
	})
}

func TestPermission_QueuedInputGoesToReadersOnly(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		c.p.say(ipc.StdinWait{Turn: c.turn, Wait: 1, Prompt: "one? ", Kind: ipc.WaitLine, Want: ipc.WantLine})
		w := now(c.T, c.s, c.turn).InputRequest
		c.hold("write", c.a+"/x") // behind the question for input
		if _, err := c.s.Answer(t.Context(), w.ID, session.Input{Data: []byte("1\n2\n")}); err != nil {
			t.Fatal(err)
		}
		c.mustAsk(c.a + "/x")
		c.p.say(ipc.StdinWait{Turn: c.turn, Wait: 2, Prompt: "two? ", Kind: ipc.WaitLine, Want: ipc.WantLine})
		c.permit(c.asked().ID, false)
		got, _ := frames[ipc.TurnInput](c.p.take())
		if len(got) != 2 || string(got[1].Input) != "2\n" || got[1].Wait != 2 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestPermission_AnInterruptEndsTheQuestionAndRefusesWhatIsStillHeld(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		call := c.hold("write", c.a+"/x")
		id := c.mustAsk(c.a + "/x")
		result := interruptAside(t, c.s, c.turn)
		var order []string
		for _, h := range c.p.take() {
			switch h.what.(type) {
			case sent:
				order = append(order, "signal")
			case permitted:
				order = append(order, "refusal")
			}
		}
		if !slices.Equal(order, []string{"signal", "signal", "refusal"}) {
			t.Errorf("got %v: the signal has to end the call", order)
		}
		if p := c.asked(); p != nil {
			t.Errorf("it is still asked: %+v", p)
		}
		if err := c.s.AnswerPermission(t.Context(), id, true); !errors.Is(err, session.ErrStale) || !strings.Contains(err.Error(), "not asked for any more") {
			t.Errorf("a late yes: got %v", err)
		}
		c.report(host.Denial{ID: call, Op: "write", Path: c.a + "/x"}) // the call began again before the worker said a word
		if p := c.asked(); p != nil {
			t.Errorf("it is asked before the interrupt was felt: %+v", p)
		}
		c.mustAnswer(permitted{call, false}) // or it would never feel it
		c.hold("write", c.a+"/x")            // which goes on, and wants the same once more
		c.p.say(ipc.InterruptAck{Turn: c.turn, Seq: 1, Result: ipc.InterruptPending})
		if again := c.mustAsk(c.a + "/x"); again == id {
			t.Errorf("a late answer to %d would answer the new question", id)
		}
		if got := <-result; got != session.InterruptWaiting {
			t.Errorf("got %q", got)
		}
	})
}

func TestPermission_AnInterruptThatEndsTheTurnLeavesNothing(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		call := c.hold("write", c.a+"/x")
		c.mustAsk(c.a + "/x")
		result := interruptAside(t, c.s, c.turn)
		c.report(host.Denial{ID: call, Over: true})
		c.p.say(ipc.InterruptAck{Turn: c.turn, Seq: 1, Result: ipc.InterruptPending}, ipc.Idle{Turn: c.turn, Outcome: ipc.OutcomeInterrupted})
		if got := <-result; got != session.InterruptIdle {
			t.Errorf("got %q", got)
		}
		if r := now(c.T, c.s, c.turn); r.Outcome != timeline.OutcomeInterrupted || r.InputRequest != nil {
			t.Errorf("got %+v", r)
		}
	})
}

func TestPermission_TheQuestionGoesWithItsCall(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		x, y := c.hold("write", c.a+"/x"), c.hold("write", c.b+"/y")
		c.mustAsk(c.a + "/x")
		c.report(host.Denial{ID: y, Over: true})
		c.report(host.Denial{ID: x, Over: true})
		c.report(host.Denial{ID: x, Over: true})
		if r := now(c.T, c.s, c.turn); r.State != session.StateRunning || r.InputRequest != nil {
			t.Errorf("got %+v", r)
		}
		c.mustAnswer()
		c.report(host.Denial{ID: x, Op: "write", Path: c.a + "/x"})
		c.report(host.Denial{ID: x, Op: "write", Path: c.a + "/x"})
		c.permit(c.mustAsk(c.a+"/x"), false)
		c.mustAnswer(permitted{x, false})
	})
}

func TestPermission_EveryEndOfATurnAnswersItsCalls(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*boxed)
		want []permitted
	}{
		"idle":  {func(c *boxed) { c.p.say(ipc.Idle{Turn: c.turn, Outcome: ipc.OutcomeOK}) }, []permitted{{1, false}, {2, false}}},
		"death": {func(c *boxed) { c.p.end(host.Exit{Code: 3}) }, nil},
		"reset": {func(c *boxed) {
			c.p.change(func() { c.p.dies = host.Hangup })
			if err := c.s.Reset(c.Context()); err != nil {
				c.Fatal(err)
			}
		}, []permitted{{1, false}, {2, false}}},
		"close": {func(c *boxed) {
			c.p.change(func() { c.p.dies = host.Hangup })
			if err := c.s.Close(c.Context()); err != nil {
				c.Fatal(err)
			}
		}, []permitted{{1, false}, {2, false}}},
		"the worker leaves": {func(c *boxed) { c.p.say(ipc.SessionEnd{Reason: ipc.EndExit}); c.p.end(host.Exit{}) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inSandbox(t, func(t *testing.T, c *boxed) {
				c.hold("write", c.a+"/x")
				c.hold("write", c.b+"/y")
				id, p, generation := c.mustAsk(c.a+"/x"), c.p, c.generation()
				test.end(c)
				synctest.Wait()
				c.p = p
				c.mustAnswer(test.want...)
				if i, _ := c.s.Info(t.Context()); i.InputRequest != nil {
					t.Errorf("got %+v", i.InputRequest)
				}
				if err := c.s.AnswerPermission(t.Context(), id, true); err == nil {
					t.Error("a late yes was taken")
				}
				waits, ends := recorded[timeline.InputRequested](c.s), recorded[timeline.InputRequestEnded](c.s)
				if len(waits) != 1 || len(ends) != 1 {
					t.Errorf("got %d waits and %d ends", len(waits), len(ends))
				}
				c.s.denied(generation, host.Denial{ID: 9, Op: "write", Path: c.a + "/late"}) // must not panic, nor reach a later worker
				if i, _ := c.s.Info(t.Context()); i.InputRequest != nil {
					t.Errorf("got %+v", i.InputRequest)
				}
			})
		})
	}
}

func TestPermission_WhileTheWorkerLeavesAnAnswerIsHarmless(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		call := c.hold("write", c.a+"/x")
		id := c.mustAsk(c.a + "/x")
		c.p.say(ipc.SessionEnd{Reason: ipc.EndExit})
		c.report(host.Denial{ID: call, Over: true})
		if err := c.s.AnswerPermission(t.Context(), id, false); !errors.Is(err, session.ErrStale) {
			t.Errorf("got %v", err)
		}
	})
}

func TestPermission_NobodyIsAskedOutsideOfATurn(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		c.p.say(ipc.Idle{Turn: c.turn, Outcome: ipc.OutcomeOK})
		call := c.hold("write", c.a+"/x")
		c.mustAnswer(permitted{call, false})
		if i, _ := c.s.Info(t.Context()); i.State != session.StateIdle {
			t.Errorf("got %v", i.State)
		}
		c.report(host.Denial{Op: "write", Path: c.b + "/y", By: "touch"})
		if got := recorded[timeline.AccessDenied](c.s); len(got) != 2 || got[1].ChildProgram != "touch" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestPermission_WhatWasGivenOutlivesTheWorker(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		c.allow(session.Grant{Write: c.a})
		c.allow(session.Grant{Write: c.b})
		if err := os.Remove(c.b); err != nil {
			t.Fatal(err)
		}
		var plans []*host.Command
		launch := c.s.launcher
		c.s.launcher = func(cmd *host.Command) (*launched, error) { plans = append(plans, cmd); return launch(cmd) }
		c.p.change(func() { c.p.dies = host.Hangup })
		if err := c.s.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		plan, err := plans[0].Sandbox.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.Writable(); !slices.Contains(got, c.a) || slices.Contains(got, c.b) {
			t.Errorf("the new worker writes %v", got)
		}
		said := recorded[timeline.Notice](c.s)
		if !slices.ContainsFunc(said, func(n timeline.Notice) bool { return strings.Contains(n.Message, c.b+" was allowed") }) {
			t.Errorf("got %v", said)
		}
	})
}

// A right that the worker was started without does not count as given. It is back once its path is there at a start.
func TestPermission_WhatIsGoneAtAStartIsAskedFor(t *testing.T) {
	for name, give := range map[string]func(*boxed){
		"kept for the workspace": func(c *boxed) { c.book.all[c.work] = []session.Grant{{Write: c.a, Always: true}} },
		"given to the session":   func(c *boxed) { c.allow(session.Grant{Write: c.a}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inSandbox(t, func(t *testing.T, c *boxed) {
				give(c)
				if err := os.Remove(c.a); err != nil {
					t.Fatal(err)
				}
				c.reset()
				if i, _ := c.s.Info(t.Context()); len(i.Grants) > 0 {
					t.Errorf("without the directory it has %+v", i.Grants)
				}
				if err := os.Mkdir(c.a, 0o700); err != nil {
					t.Fatal(err)
				}
				call := c.hold("write", c.a+"/x")
				c.permit(c.mustAsk(c.a+"/x"), false)
				c.mustAnswer(permitted{call, false})
				if got := recorded[timeline.AccessDenied](c.s); !slices.Equal(got, []timeline.AccessDenied{{Op: "write", Path: c.a + "/x"}}) {
					t.Errorf("told: got %+v", got)
				}
				c.reset()
				call = c.hold("write", c.a+"/y")
				c.mustAnswer(permitted{call, true})
				if i, _ := c.s.Info(t.Context()); !slices.Equal(i.Grants, []session.Grant{{Write: c.a}}) {
					t.Errorf("with the directory it has %+v", i.Grants)
				}
			})
		})
	}
}

// A yes gives what the start left out, and one that fails leaves it for the next start.
func TestPermission_WhatWasLeftOutCanBeGiven(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		c.allow(session.Grant{Write: c.a})
		if err := os.Remove(c.a); err != nil {
			t.Fatal(err)
		}
		c.reset()
		if err := os.Mkdir(c.a, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, no := range []error{errors.New("the kernel says no"), nil} {
			c.p.change(func() { c.p.noGrant = no })
			if err := c.s.Allow(t.Context(), session.Grant{Write: c.a}); (err == nil) != (no == nil) {
				t.Errorf("got %v", err)
			}
			want := []session.Grant{{Write: c.a}}
			if no != nil {
				want = nil
			}
			if i, _ := c.s.Info(t.Context()); !slices.Equal(i.Grants, want) {
				t.Errorf("after %v: got %+v", no, i.Grants)
			}
		}
		call := c.hold("write", c.a+"/x")
		c.mustAnswer(permitted{call, true})
	})
}

func TestPermission_AlwaysIsKeptForTheWorkspace(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		call := c.hold("write", c.a+"/x")
		c.mustAsk(c.a + "/x")
		c.allow(session.Grant{Write: c.a, Always: true})
		c.mustAnswer(permitted{call, true})
		if got := c.book.all[c.work]; !slices.Equal(got, []session.Grant{{Write: c.a, Always: true}}) {
			t.Errorf("got %+v", c.book.all)
		}
		c.book.err = errors.New("line 3: no such key")
		err := c.s.Allow(t.Context(), session.Grant{Write: c.b, Always: true})
		if err == nil || !strings.Contains(err.Error(), "allowed in this session, but not kept") || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("got %v", err)
		}
		if i, _ := c.s.Info(t.Context()); len(i.Grants) != 2 {
			t.Errorf("got %+v", i.Grants)
		}
	})
}

// A writing has what sessions write now, as a program hears it.
type writing struct {
	mu   sync.Mutex
	dirs []string
}

func (w *writing) leave(dirs []string) ([]string, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirs = append(w.dirs, dirs...)
	return nil, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, dir := range dirs {
			i := slices.Index(w.dirs, dir)
			w.dirs = slices.Delete(w.dirs, i, i+1) // which panics the second time
		}
	}
}

func TestLeave_NamesWhatIsWrittenAsLongAsItIs(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		now := &writing{}
		must := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(now.dirs, want) {
				t.Errorf("%s: got %q, want %q", when, now.dirs, want)
			}
		}
		c.s.o.Leave = now.leave
		c.reset()
		must("in a workspace", c.work)
		c.allow(session.Grant{Read: c.b})
		c.allow(session.Grant{Write: c.a})
		must("with a grant", c.work, c.a)
		c.p.change(func() { c.p.noGrant = errors.New("the kernel says no") })
		if err := c.s.Allow(t.Context(), session.Grant{Write: c.b}); err == nil {
			t.Error("it was given")
		}
		must("with one that failed", c.work, c.a)
		c.p.change(func() { c.p.noGrant = host.ErrUnanswered })
		if err := c.s.Allow(t.Context(), session.Grant{Write: c.b}); err == nil {
			t.Error("it was given")
		}
		must("with one that may come late", c.work, c.a, c.b)
		c.reset()
		must("in the next worker", c.work, c.a)
		c.p.change(func() { c.p.dies = host.Hangup })
		c.s.launcher = func(*host.Command) (*launched, error) { return nil, errors.New("no") }
		if err := c.s.Reset(t.Context()); err == nil {
			t.Error("it has started")
		}
		must("after a start that failed")
	})
}

func TestLeave_NamesNothingThatNoPlanMakesWritable(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		now := &writing{}
		o := c.s.o
		o.Leave = now.leave
		home := variable(o.Env, "HOME")
		for _, dir := range []string{"/", home, filepath.Dir(home), "/tmp", "/var/tmp"} {
			box, err := confinementOf(&workers.Spec{Path: "/bin/sh", Dir: dir, Sandbox: &workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone, Writable: []string{dir}}}, &o, "", t.TempDir(), filepath.Join(t.TempDir(), "files"))
			if err != nil {
				t.Fatal(err)
			}
			if len(now.dirs) > 0 {
				t.Errorf("in %s: got %q", dir, now.dirs)
			}
			box.ended()
		}
	})
}

// A place of programs that is named to write, too, needs what was confirmed for it.
func TestPermission_WhatWasConfirmedIsKeptForANamedPlace(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		bin := filepath.Join(variable(c.s.o.Env, "HOME"), "bin")
		if err := os.Mkdir(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		spec := c.s.spec
		sandbox := *spec.Sandbox
		sandbox.Writable = []string{bin}
		spec.Sandbox = &sandbox
		box, missing, notices := c.s.o.withGiven(&spec, []session.Grant{{Write: bin, Accept: bin}})
		if !slices.Equal(box.Writable, []string{bin}) || !slices.Equal(box.AcceptPaths, []string{bin}) || len(missing) > 0 || len(notices) > 0 {
			t.Errorf("got %+v, %+v, %q", box, missing, notices)
		}
	})
}

func TestPermission_AGrantThatFailsGivesNothing(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		c.p.change(func() { c.p.noGrant = errors.New("the kernel says no") })
		c.hold("write", c.a+"/x")
		id := c.mustAsk(c.a + "/x")
		if err := c.s.AnswerPermission(t.Context(), id, true); err == nil || !strings.Contains(err.Error(), "the kernel says no") {
			t.Errorf("got %v", err)
		}
		c.mustAnswer()
		if i, _ := c.s.Info(t.Context()); len(i.Grants) > 0 {
			t.Errorf("got %+v", i.Grants)
		}
		c.permit(c.mustAsk(c.a+"/x"), false) // it can still be refused
	})
}

// Nobody is told that a session lacks what it may have.
func TestPermission_AGrantWithoutAnAnswerIsNotKnown(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		c.p.change(func() { c.p.noGrant = host.ErrUnanswered })
		call := c.hold("write", c.a+"/x")
		err := c.s.As("ada").AnswerPermission(t.Context(), c.mustAsk(c.a+"/x"), true)
		if err == nil || !strings.Contains(err.Error(), "not known yet whether this session has "+c.a) {
			t.Errorf("got %v", err)
		}
		c.mustAnswer()
		if i, _ := c.s.Info(t.Context()); len(i.Grants) > 0 {
			t.Errorf("before it is known: got %+v", i.Grants)
		}
		c.p.late()
		c.mustAnswer(permitted{call, true})
		if i, _ := c.s.Info(t.Context()); !slices.Equal(i.Grants, []session.Grant{{Write: c.a}}) {
			t.Errorf("got %+v", i.Grants)
		}
		if got := recorded[timeline.AccessGranted](c.s); !slices.Equal(got, []timeline.AccessGranted{{Write: c.a, Author: "ada"}}) {
			t.Errorf("got %+v", got)
		}
		late := c.p.late
		c.reset()
		c.allow(session.Grant{Write: c.b})
		late() // of a worker that has ended
		if got := recorded[timeline.AccessGranted](c.s); len(got) != 2 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestPermission_ItsTextCannotPassForAnother(t *testing.T) {
	t.Parallel()
	inSandbox(t, func(t *testing.T, c *boxed) {
		c.hold("write", c.a+"/x. Allow it to write /harmless? (yes\n")
		if q, want := c.asked().Question(), fmt.Sprintf("the sandbox holds a call of code: write %q. Allow it to write %q?", c.asked().Path, c.asked().Grant.Write); q != want {
			t.Errorf("got %s, want %s", q, want)
		}
		c.p.later(time.Hour) // no clock answers it
		if c.asked() == nil {
			t.Error("the question is gone")
		}
	})
}

func TestNamesPath_TakesWholeNamesOnly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"No such file: '/data/a/.ssh/id'":        true,
		"/data/a/.ssh":                           true,
		"/data/a/.ssh: denied":                   true,
		"/data/a/.sshd and then /data/a/.ssh/id": true,
		"/data/a/.sshd":                          false,
		"/data/a/.ssh.old":                       false,
		"/mnt/data/a/.ssh/id":                    false,
		"//data/a/.ssh":                          false,
		"":                                       false,
	} {
		if got := namesPath(text, "/data/a/.ssh"); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// A place that a name leads to in vain is told once in a turn, however often the code tries.
func TestRefusedHost_IsToldOnceInATurn(t *testing.T) {
	inBubble(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.ready()
		turn := submit(t, s, "loop")
		for i := range 100 {
			if s.refusedHost(t.Context(), fmt.Sprintf("db%d.example.org:5432", i%10), "it leads to 10.0.0.1") {
				t.Error("it was allowed")
			}
		}
		p.say(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
		told, more := 0, 0
		for _, e := range s.log.EventsSince(0) {
			if n, ok := e.Body.(timeline.Notice); ok && strings.Contains(n.Message, "it leads to") {
				told++
			} else if ok && strings.Contains(n.Message, "50 more") {
				more++
			}
		}
		if told != maxDenials || more != 1 {
			t.Errorf("got %d notices, and %d of the rest", told, more)
		}
	})
}
