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

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A memoryGrantStore is a GrantStore that keeps its grants in memory.
type memoryGrantStore struct {
	all map[string][]session.Grant
	err error
}

func (s *memoryGrantStore) List(workspace string) ([]session.Grant, error) {
	return s.all[workspace], s.err
}

func (s *memoryGrantStore) Add(workspace string, g session.Grant) error {
	if s.err == nil {
		s.all[workspace] = append(s.all[workspace], g)
	}
	return s.err
}

// A sandboxFixture is a sandboxed session with a running turn, and directories outside of its
// sandbox.
type sandboxFixture struct {
	*testing.T
	session    *Session
	process    *fakeProcess
	turn       uint64
	workspace  string
	dirA, dirB string
	grantStore *memoryGrantStore
	nextCall   uint64
}

// runInSandbox runs a test in fake time with a running turn of a sandboxed session.
func runInSandbox(t *testing.T, test func(*testing.T, *sandboxFixture)) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(sandboxcheck.TempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	c := &sandboxFixture{workspace: filepath.Join(dir, "work"), dirA: filepath.Join(dir, "a"), dirB: filepath.Join(dir, "b"), grantStore: &memoryGrantStore{all: map[string][]session.Grant{}}}
	for _, d := range []string{c.workspace, c.dirA, c.dirB, filepath.Join(dir, "home")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	spec := workers.Spec{Dir: c.workspace, Sandbox: &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, AskUser: true}}
	runWithFakeWorker(t, &Options{Grants: c.grantStore, Env: []string{"HOME=" + filepath.Join(dir, "home")}}, spec, func(t *testing.T, s *Session, p *fakeProcess) {
		c.T, c.session, c.process = t, s, p
		p.sendReady()
		c.turn = submitTurn(t, s, "code")
		p.takeReceived()
		test(t, c)
	})
}

// holdCall makes the sandbox suspend a call, and returns the monitor's ID for it.
func (f *sandboxFixture) holdCall(op, path string) uint64 {
	f.Helper()
	f.nextCall++
	f.reportDenial(monitorproto.Denial{ID: f.nextCall, Op: op, Path: path})
	return f.nextCall
}

func (f *sandboxFixture) reportDenial(d monitorproto.Denial) {
	f.session.handleDenial(f.generation(), d)
	synctest.Wait()
}

func (f *sandboxFixture) generation() uint64 {
	i, _ := f.session.Info(f.Context())
	return i.Generation
}

// shownPermission returns the permission request that callers see; nil if there is none.
func (f *sandboxFixture) shownPermission() *session.PermissionRequest {
	f.Helper()
	r := pollReply(f.T, f.session, f.turn)
	if r.InputRequest == nil {
		return nil
	}
	if r.State != session.StateWaiting || r.InputRequest.Kind != timeline.InputKindPermission || r.InputRequest.Permission == nil {
		f.Fatalf("got %v, %+v", r.State, r.InputRequest)
	}
	return r.InputRequest.Permission
}

// wantQuestion returns the ID of the shown permission request, and fails the test unless it is for
// this path.
func (f *sandboxFixture) wantQuestion(path string) uint64 {
	f.Helper()
	p := f.shownPermission()
	if p == nil || p.Path != path || p.Grant != (session.Grant{Write: filepath.Dir(path)}) {
		f.Fatalf("got %+v, want a question about %s", p, path)
	}
	return p.ID
}

// takeAnswers returns the answers to pending calls since the last call.
func (f *sandboxFixture) takeAnswers() (got []answeredCall) {
	for _, h := range f.process.takeReceived() {
		if a, ok := h.what.(answeredCall); ok {
			got = append(got, a)
		}
	}
	return got
}

func (f *sandboxFixture) wantAnswers(want ...answeredCall) {
	f.Helper()
	if got := f.takeAnswers(); !slices.Equal(got, want) {
		f.Fatalf("the monitor received %v, want %v", got, want)
	}
}

// recordedBodies returns the recorded event bodies of one type.
func recordedBodies[B timeline.Body](s *Session) (all []B) {
	for _, e := range s.Log().EventsSince(0) {
		if b, ok := e.Body.(B); ok {
			all = append(all, b)
		}
	}
	return all
}

// resetWorker starts a new worker and a turn in it.
func (f *sandboxFixture) resetWorker() {
	f.Helper()
	f.process.withLock(func() { f.process.fatalSignal = monitorproto.Hangup })
	f.session.launcher = func(*launch.StartConfig) (l *launchResult, err error) {
		f.process, l = newFakeProcess(f.T)
		return l, nil
	}
	if err := f.session.Reset(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.process.sendReady()
	f.turn = submitTurn(f.T, f.session, "code")
	f.process.takeReceived()
}

func (f *sandboxFixture) allowGrant(g session.Grant) {
	f.Helper()
	if err := f.session.As("ada").Allow(f.Context(), g); err != nil {
		f.Fatal(err)
	}
}

func (f *sandboxFixture) answerPermission(id uint64, ok bool) {
	f.Helper()
	if err := f.session.As("ada").AnswerPermission(f.Context(), id, ok); err != nil {
		f.Fatal(err)
	}
}

func TestPermission(t *testing.T) {
	t.Parallel()

	t.Run("a yes grants the directory and resumes the call", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			call := c.holdCall("write", c.dirA+"/x")
			c.answerPermission(c.wantQuestion(c.dirA+"/x"), true)
			var got []any
			for _, h := range c.process.takeReceived() {
				got = append(got, h.what)
			}
			if want := []any{writeGrant{c.dirA}, answeredCall{call, true}}; !slices.Equal(got, want) {
				t.Errorf("the monitor received %v, want %v", got, want)
			}
			if r := pollReply(c.T, c.session, c.turn); r.State != session.StateRunning || r.InputRequest != nil {
				t.Errorf("got %+v", r)
			}
			if got := recordedBodies[timeline.AccessGranted](c.session); !slices.Equal(got, []timeline.AccessGranted{{Write: c.dirA, Author: "ada"}}) {
				t.Errorf("got %+v", got)
			}
			if i, _ := c.session.Info(t.Context()); !slices.Equal(i.Grants, []session.Grant{{Write: c.dirA}}) || i.Sandbox != "workspace, network none" {
				t.Errorf("got %+v of %q", i.Grants, i.Sandbox)
			}
			again := c.holdCall("create", c.dirA+"/y") // it was already in flight
			c.wantAnswers(answeredCall{again, true})
		})
	})

	t.Run("a refusal is remembered until the user allows it", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			first := c.holdCall("write", c.dirA+"/x")
			c.answerPermission(c.wantQuestion(c.dirA+"/x"), false)
			c.wantAnswers(answeredCall{first, false})
			second := c.holdCall("write", c.dirA+"/y")
			c.wantAnswers(answeredCall{second, false})
			if p := c.shownPermission(); p != nil {
				t.Errorf("asked again: %+v", p)
			}
			if got, want := recordedBodies[timeline.AccessDenied](c.session), []timeline.AccessDenied{{Op: "write", Path: c.dirA + "/x", Author: "ada"}, {Op: "write", Path: c.dirA + "/y"}}; !slices.Equal(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			c.allowGrant(session.Grant{Write: c.dirA})
			third := c.holdCall("write", c.dirA+"/z")
			c.wantAnswers(answeredCall{third, true})
		})
	})

	t.Run("one is asked at a time, and its answer covers a directory", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			x, other, y := c.holdCall("write", c.dirA+"/x"), c.holdCall("write", c.dirB+"/o"), c.holdCall("create", c.dirA+"/y")
			c.answerPermission(c.wantQuestion(c.dirA+"/x"), true)
			c.wantAnswers(answeredCall{x, true}, answeredCall{y, true})
			c.answerPermission(c.wantQuestion(c.dirB+"/o"), false)
			c.wantAnswers(answeredCall{other, false})
			if p := c.shownPermission(); p != nil {
				t.Errorf("got %+v", p)
			}
		})
	})

	t.Run("a grant covers pending calls below it", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			deep := filepath.Join(c.dirA, "deep")
			if err := os.Mkdir(deep, 0o700); err != nil {
				t.Fatal(err)
			}
			call := c.holdCall("write", deep+"/x")
			c.wantQuestion(deep + "/x")
			c.allowGrant(session.Grant{Write: c.dirB})
			c.wantAnswers()
			c.allowGrant(session.Grant{Write: c.dirA})
			c.wantAnswers(answeredCall{call, true})
		})
	})

	t.Run("at most five are asked for in a turn", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			for i := range maxQuestionsPerTurn {
				path := fmt.Sprintf("%s/%d/x", c.dirA, i)
				c.holdCall("write", path)
				c.answerPermission(c.wantQuestion(path), false)
			}
			c.takeAnswers()
			for i := range 7 {
				call := c.holdCall("write", fmt.Sprintf("%s/more%d/x", c.dirB, i))
				c.wantAnswers(answeredCall{call, false})
			}
			if got := len(recordedBodies[timeline.AccessDenied](c.session)); got != maxReportedDenials {
				t.Errorf("%d denials are reported, want %d", got, maxReportedDenials)
			}
			c.process.sendFrames(ipc.Idle{Turn: c.turn, Outcome: ipc.OutcomeOK})
			if !strings.Contains(pollReply(c.T, c.session, c.turn).Text(), "[the sandbox refused at least 7 more calls]") {
				t.Errorf("got %s", pollReply(c.T, c.session, c.turn).Text())
			}
			c.turn = submitTurn(t, c.session, "more")
			c.holdCall("write", c.dirB+"/again")
			c.wantQuestion(c.dirB + "/again")
		})
	})

	// Calls of a thread pool, or a call that the signals of a timer interrupt, lead to one
	// question.
	t.Run("calls that one answer covers are asked about once", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			for _, ok := range []bool{false, true} {
				dir := map[bool]string{false: c.dirA, true: c.dirB}[ok]
				var want []answeredCall
				for i := range 2 * maxQuestionsPerTurn {
					want = append(want, answeredCall{c.holdCall("write", fmt.Sprintf("%s/%d", dir, i)), ok})
				}
				c.wantAnswers()
				c.answerPermission(c.wantQuestion(dir+"/0"), ok)
				c.wantAnswers(want...)
				if p := c.shownPermission(); p != nil {
					t.Errorf("asked again: %+v", p)
				}
			}
		})
	})

	t.Run("no input can grant it", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			c.holdCall("write", c.dirA+"/x")
			c.wantQuestion(c.dirA + "/x")
			w := pollReply(c.T, c.session, c.turn).InputRequest
			for _, in := range []session.Input{{Data: []byte("yes\n")}, {Data: []byte("y\n"), EOF: true}, {EOF: true}, {}} {
				if _, err := c.session.As("model").Answer(t.Context(), w.ID, in); session.KindOf(err) != session.KindPermission {
					t.Errorf("%q: got %v", in.Data, err)
				}
			}
			_, err := c.session.Submit(t.Context(), "yes")
			if refused, ok := errors.AsType[*session.Error](err); !errors.Is(err, session.ErrWaiting) || !ok || refused.InputRequest.Permission == nil || !strings.Contains(err.Error(), "until the user allows or refuses") {
				t.Errorf("got %v", err)
			}
			c.wantAnswers()
			c.wantQuestion(c.dirA + "/x")
		})
	})

	t.Run("queued input goes to readers only", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			c.process.sendFrames(ipc.StdinWait{Turn: c.turn, Wait: 1, Prompt: "one? ", Kind: ipc.WaitLine, Want: ipc.WantLine})
			w := pollReply(c.T, c.session, c.turn).InputRequest
			c.holdCall("write", c.dirA+"/x") // after the input request
			if _, err := c.session.Answer(t.Context(), w.ID, session.Input{Data: []byte("1\n2\n")}); err != nil {
				t.Fatal(err)
			}
			c.wantQuestion(c.dirA + "/x")
			c.process.sendFrames(ipc.StdinWait{Turn: c.turn, Wait: 2, Prompt: "two? ", Kind: ipc.WaitLine, Want: ipc.WantLine})
			c.answerPermission(c.shownPermission().ID, false)
			got, _ := receivedFrames[ipc.TurnInput](c.process.takeReceived())
			if len(got) != 2 || string(got[1].Input) != "2\n" || got[1].Wait != 2 {
				t.Errorf("got %+v", got)
			}
		})
	})

	t.Run("the question ends with its call", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			x, y := c.holdCall("write", c.dirA+"/x"), c.holdCall("write", c.dirB+"/y")
			c.wantQuestion(c.dirA + "/x")
			c.reportDenial(monitorproto.Denial{ID: y, Resolved: true})
			c.reportDenial(monitorproto.Denial{ID: x, Resolved: true})
			c.reportDenial(monitorproto.Denial{ID: x, Resolved: true})
			if r := pollReply(c.T, c.session, c.turn); r.State != session.StateRunning || r.InputRequest != nil {
				t.Errorf("got %+v", r)
			}
			c.wantAnswers()
			c.reportDenial(monitorproto.Denial{ID: x, Op: "write", Path: c.dirA + "/x"})
			c.reportDenial(monitorproto.Denial{ID: x, Op: "write", Path: c.dirA + "/x"})
			c.answerPermission(c.wantQuestion(c.dirA+"/x"), false)
			c.wantAnswers(answeredCall{x, false})
		})
	})

	t.Run("an answer is harmless while the worker exits", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			call := c.holdCall("write", c.dirA+"/x")
			id := c.wantQuestion(c.dirA + "/x")
			c.process.sendFrames(ipc.SessionEnd{Reason: ipc.EndExit})
			c.reportDenial(monitorproto.Denial{ID: call, Resolved: true})
			if err := c.session.AnswerPermission(t.Context(), id, false); !errors.Is(err, session.ErrStale) {
				t.Errorf("got %v", err)
			}
		})
	})

	t.Run("is never asked for outside a turn", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			c.process.sendFrames(ipc.Idle{Turn: c.turn, Outcome: ipc.OutcomeOK})
			call := c.holdCall("write", c.dirA+"/x")
			c.wantAnswers(answeredCall{call, false})
			if i, _ := c.session.Info(t.Context()); i.State != session.StateIdle {
				t.Errorf("got %v", i.State)
			}
			c.reportDenial(monitorproto.Denial{Op: "write", Path: c.dirB + "/y", Program: "touch"})
			if got := recordedBodies[timeline.AccessDenied](c.session); len(got) != 2 || got[1].ChildProgram != "touch" {
				t.Errorf("got %+v", got)
			}
		})
	})

	t.Run("a path cannot fake the text of the question", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			c.holdCall("write", c.dirA+"/x. Allow it to write /harmless? (yes\n")
			if q, want := c.shownPermission().Question(), fmt.Sprintf("the sandbox holds a call of code: write %q. Allow it to write %q?", c.shownPermission().Path, c.shownPermission().Grant.Write); q != want {
				t.Errorf("got %s, want %s", q, want)
			}
			c.process.advanceTime(time.Hour) // no clock answers it
			if c.shownPermission() == nil {
				t.Error("the question is gone")
			}
		})
	})
}

func TestPermissionOffer(t *testing.T) {
	t.Parallel()

	t.Run("some paths are never offered", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			home := environ.Get(c.session.o.Env, "HOME")
			for _, path := range []string{"/x", home + "/x", filepath.Dir(home) + "/x", home + "/.ssh/id", home + "/.config/gh/hosts.yml", "/proc/1/mem", "/sys/x", "/dev/sda",
				"/run/docker.sock", "/tmp/turnstone-no-such-file", c.dirA + "/.git/hooks/pre-commit", c.dirA + "/.vscode/tasks.json", "relative", ""} {
				call := c.holdCall("write", path)
				c.wantAnswers(answeredCall{call, false})
				if p := c.shownPermission(); p != nil {
					t.Errorf("%s was offered: %+v", path, p)
				}
			}
			for _, op := range []string{"read", "connect"} {
				call := c.holdCall(op, c.dirA+"/x")
				c.wantAnswers(answeredCall{call, false})
			}
			for _, dir := range []string{"/", home, "/proc", "/tmp", home + "/.ssh", c.dirA + "/.git", "a", c.dirA + "/absent"} {
				if err := c.session.Allow(t.Context(), session.Grant{Write: dir}); session.KindOf(err) != session.KindInvalid {
					t.Errorf("allow %s: got %v", dir, err)
				}
			}
		})
	})

	// The directories of the user's services and of the daemon are never granted, even if they are
	// named as writable.
	t.Run("directories of the daemon are never granted", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			run, home := filepath.Join(filepath.Dir(c.workspace), "run"), environ.Get(c.session.o.Env, "HOME")
			o := c.session.o
			o.Env = append(slices.Clone(o.Env), "XDG_RUNTIME_DIR="+run)
			for _, path := range []string{run, run + "/turnstone", home + "/.local/state/turnstone", home + "/.config/turnstone"} {
				if err := os.MkdirAll(path, 0o700); err != nil {
					t.Fatal(err)
				}
				for named, writable := range map[string][]string{"": nil, ", named to write": {path}} {
					spec := c.session.spec
					policy := *spec.Sandbox
					policy.Writable, policy.AcceptPaths = writable, writable
					spec.Sandbox = &policy
					for what, g := range map[string]session.Grant{"write": {Write: path, Accept: path}, "read": {Read: path}} {
						if _, err := o.CheckPath(&spec, g); session.KindOf(err) != session.KindInvalid || !strings.Contains(err.Error(), "hidden from sessions") {
							t.Errorf("%s %s%s: got %v", what, path, named, err)
						}
					}
					box, err := newConfinement(&spec, &o, "", t.TempDir(), filepath.Join(t.TempDir(), "files"))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := box.sandbox.Plan(); (err != nil) != (writable != nil) {
						t.Errorf("a start%s: got %v", named, err)
					}
				}
			}
			spec := c.session.spec
			spec.Dir = home + "/.local/state/turnstone"
			box, err := newConfinement(&spec, &o, "", t.TempDir(), filepath.Join(t.TempDir(), "files"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := box.sandbox.Plan(); err == nil || !strings.Contains(err.Error(), "hidden from sessions") {
				t.Errorf("a start in %s: got %v", spec.Dir, err)
			}
		})
	})

	// A file may be granted in a directory that never is, such as the home directory.
	t.Run("a file is offered alone if its directory cannot be", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			notes := filepath.Join(environ.Get(c.session.o.Env, "HOME"), "notes")
			profile := filepath.Join(environ.Get(c.session.o.Env, "HOME"), ".profile")
			for _, path := range []string{notes, profile} {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for op, path := range map[string]string{"remove": notes, "rename": notes, "write": profile} {
				c.wantAnswers(answeredCall{c.holdCall(op, path), false})
			}
			call := c.holdCall("write", notes)
			if p := c.shownPermission(); p == nil || p.Grant != (session.Grant{Write: notes}) {
				t.Fatalf("got %+v", p)
			}
			c.answerPermission(c.shownPermission().ID, true)
			var got []any
			for _, h := range c.process.takeReceived() {
				got = append(got, h.what)
			}
			if want := []any{writeGrant{notes}, answeredCall{call, true}}; !slices.Equal(got, want) {
				t.Errorf("the monitor received %v, want %v", got, want)
			}
			c.wantAnswers()
			again := c.holdCall("write", notes)
			c.wantAnswers(answeredCall{again, true})
		})
	})
}

func TestGrant(t *testing.T) {
	t.Parallel()

	// A session sees what a user shows it, also in later workers, but that resumes no pending call.
	t.Run("a path granted for reading is not writable", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			call := c.holdCall("write", c.dirA+"/x")
			c.allowGrant(session.Grant{Read: c.dirA})
			if got := c.process.takeReceived(); len(got) != 1 || got[0].what != (readGrant{c.dirA}) {
				t.Errorf("the monitor received %v", got)
			}
			if got := recordedBodies[timeline.AccessGranted](c.session); !slices.Equal(got, []timeline.AccessGranted{{Read: c.dirA, Author: "ada"}}) {
				t.Errorf("got %+v", got)
			}
			c.answerPermission(c.wantQuestion(c.dirA+"/x"), false)
			c.wantAnswers(answeredCall{call, false})
			c.allowGrant(session.Grant{Read: c.dirB, Always: true})
			if got := c.grantStore.all[c.workspace]; !slices.Equal(got, []session.Grant{{Read: c.dirB, Always: true}}) {
				t.Errorf("saved: got %+v", got)
			}
			given := []session.Grant{{Read: c.dirA}, {Write: c.dirB}, {Read: c.dirA + "/gone"}}
			box, missing, notices := c.session.o.sandboxWithGrants(&c.session.spec, given)
			if !slices.Equal(box.Readable, []string{c.dirA}) || !slices.Equal(box.Writable, []string{c.dirB}) || !slices.Equal(missing, given[2:]) || len(notices) != 1 {
				t.Errorf("a later worker: got %+v, %q", box, notices)
			}
		})
	})

	t.Run("outlives the worker", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			c.allowGrant(session.Grant{Write: c.dirA})
			c.allowGrant(session.Grant{Write: c.dirB})
			if err := os.Remove(c.dirB); err != nil {
				t.Fatal(err)
			}
			var plans []*launch.StartConfig
			start := c.session.launcher
			c.session.launcher = func(cmd *launch.StartConfig) (*launchResult, error) { plans = append(plans, cmd); return start(cmd) }
			c.process.withLock(func() { c.process.fatalSignal = monitorproto.Hangup })
			if err := c.session.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			plan, err := plans[0].Sandbox.Plan()
			if err != nil {
				t.Fatal(err)
			}
			if got := plan.WritableDirs(); !slices.Contains(got, c.dirA) || slices.Contains(got, c.dirB) {
				t.Errorf("the new worker writes %v", got)
			}
			notices := recordedBodies[timeline.Notice](c.session)
			if !slices.ContainsFunc(notices, func(n timeline.Notice) bool { return strings.Contains(n.Message, c.dirB+" was allowed") }) {
				t.Errorf("got %v", notices)
			}
		})
	})

	// A grant adds what the start left out, and a failed grant leaves it to the next start.
	t.Run("a path missing at the start can be granted later", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			c.allowGrant(session.Grant{Write: c.dirA})
			if err := os.Remove(c.dirA); err != nil {
				t.Fatal(err)
			}
			c.resetWorker()
			if err := os.Mkdir(c.dirA, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, no := range []error{errors.New("the kernel says no"), nil} {
				c.process.withLock(func() { c.process.grantError = no })
				if err := c.session.Allow(t.Context(), session.Grant{Write: c.dirA}); (err == nil) != (no == nil) {
					t.Errorf("got %v", err)
				}
				want := []session.Grant{{Write: c.dirA}}
				if no != nil {
					want = nil
				}
				if i, _ := c.session.Info(t.Context()); !slices.Equal(i.Grants, want) {
					t.Errorf("after %v: got %+v", no, i.Grants)
				}
			}
			call := c.holdCall("write", c.dirA+"/x")
			c.wantAnswers(answeredCall{call, true})
		})
	})

	t.Run("is saved for the workspace with Always", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			call := c.holdCall("write", c.dirA+"/x")
			c.wantQuestion(c.dirA + "/x")
			c.allowGrant(session.Grant{Write: c.dirA, Always: true})
			c.wantAnswers(answeredCall{call, true})
			if got := c.grantStore.all[c.workspace]; !slices.Equal(got, []session.Grant{{Write: c.dirA, Always: true}}) {
				t.Errorf("got %+v", c.grantStore.all)
			}
			c.grantStore.err = errors.New("line 3: no such key")
			err := c.session.Allow(t.Context(), session.Grant{Write: c.dirB, Always: true})
			if err == nil || !strings.Contains(err.Error(), "allowed in this session, but not saved") || !strings.Contains(err.Error(), "line 3") {
				t.Errorf("got %v", err)
			}
			if i, _ := c.session.Info(t.Context()); len(i.Grants) != 2 {
				t.Errorf("got %+v", i.Grants)
			}
		})
	})

	// A directory of programs that the spec names as writable needs the confirmation, too.
	t.Run("keeps what was confirmed for a path of the spec", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			bin := filepath.Join(environ.Get(c.session.o.Env, "HOME"), "bin")
			if err := os.Mkdir(bin, 0o700); err != nil {
				t.Fatal(err)
			}
			spec := c.session.spec
			policy := *spec.Sandbox
			policy.Writable = []string{bin}
			spec.Sandbox = &policy
			box, missing, notices := c.session.o.sandboxWithGrants(&spec, []session.Grant{{Write: bin, Accept: bin}})
			if !slices.Equal(box.Writable, []string{bin}) || !slices.Equal(box.AcceptPaths, []string{bin}) || len(missing) > 0 || len(notices) > 0 {
				t.Errorf("got %+v, %+v, %q", box, missing, notices)
			}
		})
	})

	t.Run("gives nothing if the sandbox refuses it", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			c.process.withLock(func() { c.process.grantError = errors.New("the kernel says no") })
			c.holdCall("write", c.dirA+"/x")
			id := c.wantQuestion(c.dirA + "/x")
			if err := c.session.AnswerPermission(t.Context(), id, true); err == nil || !strings.Contains(err.Error(), "the kernel says no") {
				t.Errorf("got %v", err)
			}
			c.wantAnswers()
			if i, _ := c.session.Info(t.Context()); len(i.Grants) > 0 {
				t.Errorf("got %+v", i.Grants)
			}
			c.answerPermission(c.wantQuestion(c.dirA+"/x"), false) // it can still be refused
		})
	})

	// Access that a session may have is not reported as missing.
	t.Run("counts only once the sandbox has answered", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			c.process.withLock(func() { c.process.grantError = launch.ErrGrantPending })
			call := c.holdCall("write", c.dirA+"/x")
			err := c.session.As("ada").AnswerPermission(t.Context(), c.wantQuestion(c.dirA+"/x"), true)
			if err == nil || !strings.Contains(err.Error(), "unknown whether this session can use "+c.dirA) {
				t.Errorf("got %v", err)
			}
			c.wantAnswers()
			if i, _ := c.session.Info(t.Context()); len(i.Grants) > 0 {
				t.Errorf("before it is known: got %+v", i.Grants)
			}
			c.process.lateGrant()
			c.wantAnswers(answeredCall{call, true})
			if i, _ := c.session.Info(t.Context()); !slices.Equal(i.Grants, []session.Grant{{Write: c.dirA}}) {
				t.Errorf("got %+v", i.Grants)
			}
			if got := recordedBodies[timeline.AccessGranted](c.session); !slices.Equal(got, []timeline.AccessGranted{{Write: c.dirA, Author: "ada"}}) {
				t.Errorf("got %+v", got)
			}
			late := c.process.lateGrant
			c.resetWorker()
			c.allowGrant(session.Grant{Write: c.dirB})
			late() // from a worker that has ended
			if got := recordedBodies[timeline.AccessGranted](c.session); len(got) != 2 {
				t.Errorf("got %+v", got)
			}
		})
	})
}

func TestPermissionInterrupt(t *testing.T) {
	t.Parallel()

	t.Run("ends the question and refuses pending calls", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			call := c.holdCall("write", c.dirA+"/x")
			id := c.wantQuestion(c.dirA + "/x")
			result := interruptInBackground(t, c.session, c.turn)
			var order []string
			for _, h := range c.process.takeReceived() {
				switch h.what.(type) {
				case sentSignal:
					order = append(order, "signal")
				case answeredCall:
					order = append(order, "refusal")
				}
			}
			if !slices.Equal(order, []string{"signal", "signal", "refusal"}) {
				t.Errorf("got %v: the signal has to end the call", order)
			}
			if p := c.shownPermission(); p != nil {
				t.Errorf("still asked: %+v", p)
			}
			if err := c.session.AnswerPermission(t.Context(), id, true); !errors.Is(err, session.ErrStale) || !strings.Contains(err.Error(), "is closed: it was answered") {
				t.Errorf("a late grant: got %v", err)
			}
			c.reportDenial(monitorproto.Denial{ID: call, Op: "write", Path: c.dirA + "/x"}) // the call restarted before the worker sent anything
			if p := c.shownPermission(); p != nil {
				t.Errorf("asked before the interrupt took effect: %+v", p)
			}
			c.wantAnswers(answeredCall{call, false}) // otherwise the interrupt would never take effect
			c.holdCall("write", c.dirA+"/x")         // the code continues and makes the same call again
			c.process.sendFrames(ipc.InterruptAck{Turn: c.turn, Seq: 1, Result: ipc.InterruptPending})
			if again := c.wantQuestion(c.dirA + "/x"); again == id {
				t.Errorf("a late answer to %d would answer the new question", id)
			}
			if got := <-result; got != session.InterruptWaiting {
				t.Errorf("got %q", got)
			}
		})
	})

	t.Run("leaves no question when the turn ends", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			call := c.holdCall("write", c.dirA+"/x")
			c.wantQuestion(c.dirA + "/x")
			result := interruptInBackground(t, c.session, c.turn)
			c.reportDenial(monitorproto.Denial{ID: call, Resolved: true})
			c.process.sendFrames(ipc.InterruptAck{Turn: c.turn, Seq: 1, Result: ipc.InterruptPending}, ipc.Idle{Turn: c.turn, Outcome: ipc.OutcomeInterrupted})
			if got := <-result; got != session.InterruptIdle {
				t.Errorf("got %q", got)
			}
			if r := pollReply(c.T, c.session, c.turn); r.Outcome != timeline.OutcomeInterrupted || r.InputRequest != nil {
				t.Errorf("got %+v", r)
			}
		})
	})
}

func TestPermission_EndOfTurn(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*sandboxFixture)
		want []answeredCall
	}{
		"idle":  {func(c *sandboxFixture) { c.process.sendFrames(ipc.Idle{Turn: c.turn, Outcome: ipc.OutcomeOK}) }, []answeredCall{{1, false}, {2, false}}},
		"death": {func(c *sandboxFixture) { c.process.exitWith(monitorproto.Exit{Code: 3}) }, nil},
		"reset": {func(c *sandboxFixture) {
			c.process.withLock(func() { c.process.fatalSignal = monitorproto.Hangup })
			if err := c.session.Reset(c.Context()); err != nil {
				c.Fatal(err)
			}
		}, []answeredCall{{1, false}, {2, false}}},
		"close": {func(c *sandboxFixture) {
			c.process.withLock(func() { c.process.fatalSignal = monitorproto.Hangup })
			if err := c.session.Close(c.Context()); err != nil {
				c.Fatal(err)
			}
		}, []answeredCall{{1, false}, {2, false}}},
		"the worker leaves": {func(c *sandboxFixture) {
			c.process.sendFrames(ipc.SessionEnd{Reason: ipc.EndExit})
			c.process.exitWith(monitorproto.Exit{})
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
				c.holdCall("write", c.dirA+"/x")
				c.holdCall("write", c.dirB+"/y")
				id, p, generation := c.wantQuestion(c.dirA+"/x"), c.process, c.generation()
				test.end(c)
				synctest.Wait()
				c.process = p
				c.wantAnswers(test.want...)
				if i, _ := c.session.Info(t.Context()); i.InputRequest != nil {
					t.Errorf("got %+v", i.InputRequest)
				}
				if err := c.session.AnswerPermission(t.Context(), id, true); err == nil {
					t.Error("a late grant was accepted")
				}
				waits, ends := recordedBodies[timeline.InputRequested](c.session), recordedBodies[timeline.InputRequestEnded](c.session)
				if len(waits) != 1 || len(ends) != 1 {
					t.Errorf("got %d input requests and %d ends", len(waits), len(ends))
				}
				c.session.handleDenial(generation, monitorproto.Denial{ID: 9, Op: "write", Path: c.dirA + "/late"}) // must not panic, nor reach a later worker
				if i, _ := c.session.Info(t.Context()); i.InputRequest != nil {
					t.Errorf("got %+v", i.InputRequest)
				}
			})
		})
	}
}

// A grant that the worker was started without does not count as granted. It counts again once its
// path exists at a start.
func TestGrant_MissingAtStart(t *testing.T) {
	for name, give := range map[string]func(*sandboxFixture){
		"kept for the workspace": func(c *sandboxFixture) {
			c.grantStore.all[c.workspace] = []session.Grant{{Write: c.dirA, Always: true}}
		},
		"given to the session": func(c *sandboxFixture) { c.allowGrant(session.Grant{Write: c.dirA}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
				give(c)
				if err := os.Remove(c.dirA); err != nil {
					t.Fatal(err)
				}
				c.resetWorker()
				if i, _ := c.session.Info(t.Context()); len(i.Grants) > 0 {
					t.Errorf("without the directory: got %+v", i.Grants)
				}
				if err := os.Mkdir(c.dirA, 0o700); err != nil {
					t.Fatal(err)
				}
				call := c.holdCall("write", c.dirA+"/x")
				c.answerPermission(c.wantQuestion(c.dirA+"/x"), false)
				c.wantAnswers(answeredCall{call, false})
				if got := recordedBodies[timeline.AccessDenied](c.session); !slices.Equal(got, []timeline.AccessDenied{{Op: "write", Path: c.dirA + "/x", Author: "ada"}}) {
					t.Errorf("reported: got %+v", got)
				}
				c.resetWorker()
				call = c.holdCall("write", c.dirA+"/y")
				c.wantAnswers(answeredCall{call, true})
				if i, _ := c.session.Info(t.Context()); !slices.Equal(i.Grants, []session.Grant{{Write: c.dirA}}) {
					t.Errorf("with the directory: got %+v", i.Grants)
				}
			})
		})
	}
}

// A writtenDirs records the directories that sessions can write now, as BeforeWrite reports them.
type writtenDirs struct {
	mu   sync.Mutex
	dirs []string
}

func (w *writtenDirs) beforeWrite(dirs []string) ([]string, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirs = append(w.dirs, dirs...)
	return nil, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, dir := range dirs {
			i := slices.Index(w.dirs, dir)
			w.dirs = slices.Delete(w.dirs, i, i+1) // panics if ended is called twice
		}
	}
}

func TestBeforeWrite(t *testing.T) {
	t.Parallel()

	t.Run("names a directory while it is writable", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			now := &writtenDirs{}
			must := func(when string, want ...string) {
				t.Helper()
				synctest.Wait()
				if !slices.Equal(now.dirs, want) {
					t.Errorf("%s: got %q, want %q", when, now.dirs, want)
				}
			}
			c.session.o.BeforeWrite = now.beforeWrite
			c.resetWorker()
			must("in a workspace", c.workspace)
			c.allowGrant(session.Grant{Read: c.dirB})
			c.allowGrant(session.Grant{Write: c.dirA})
			must("with a grant", c.workspace, c.dirA)
			c.process.withLock(func() { c.process.grantError = errors.New("the kernel says no") })
			if err := c.session.Allow(t.Context(), session.Grant{Write: c.dirB}); err == nil {
				t.Error("the grant was accepted")
			}
			must("with one that failed", c.workspace, c.dirA)
			c.process.withLock(func() { c.process.grantError = launch.ErrGrantPending })
			if err := c.session.Allow(t.Context(), session.Grant{Write: c.dirB}); err == nil {
				t.Error("the grant was accepted")
			}
			must("with one that may come late", c.workspace, c.dirA, c.dirB)
			c.resetWorker()
			must("in the next worker", c.workspace, c.dirA)
			c.process.withLock(func() { c.process.fatalSignal = monitorproto.Hangup })
			c.session.launcher = func(*launch.StartConfig) (*launchResult, error) { return nil, errors.New("no") }
			if err := c.session.Reset(t.Context()); err == nil {
				t.Error("the session started")
			}
			must("after a start that failed")
		})
	})

	t.Run("names nothing that no plan makes writable", func(t *testing.T) {
		t.Parallel()
		runInSandbox(t, func(t *testing.T, c *sandboxFixture) {
			now := &writtenDirs{}
			o := c.session.o
			o.BeforeWrite = now.beforeWrite
			home := environ.Get(o.Env, "HOME")
			for _, dir := range []string{"/", home, filepath.Dir(home), "/tmp", "/var/tmp"} {
				box, err := newConfinement(&workers.Spec{Path: "/bin/sh", Dir: dir, Sandbox: &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, Writable: []string{dir}}}, &o, "", t.TempDir(), filepath.Join(t.TempDir(), "files"))
				if err != nil {
					t.Fatal(err)
				}
				if len(now.dirs) > 0 {
					t.Errorf("in %s: got %q", dir, now.dirs)
				}
				box.release()
			}
		})
	})
}

func TestContainsPath(t *testing.T) {
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
		if got := containsPath(text, "/data/a/.ssh"); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// A refused destination is reported once per turn, however often the code tries it.
func TestRefusedHost_ReportedOncePerTurn(t *testing.T) {
	runWithFakeWorker(t, &Options{}, workers.Spec{}, func(t *testing.T, s *Session, p *fakeProcess) {
		p.sendReady()
		turn := submitTurn(t, s, "loop")
		for i := range 100 {
			if s.handleRefusedHost(t.Context(), fmt.Sprintf("db%d.example.org:5432", i%10), "it leads to 10.0.0.1") {
				t.Error("the connection was allowed")
			}
		}
		p.sendFrames(ipc.Idle{Turn: turn, Outcome: ipc.OutcomeOK})
		reported, more := 0, 0
		for _, e := range s.log.EventsSince(0) {
			if n, ok := e.Body.(timeline.Notice); ok && strings.Contains(n.Message, "it leads to") {
				reported++
			} else if ok && strings.Contains(n.Message, "50 more") {
				more++
			}
		}
		if reported != maxReportedDenials || more != 1 {
			t.Errorf("got %d notices, and a count of %d more", reported, more)
		}
	})
}
