package escapes

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestHostile(t *testing.T) {
	t.Parallel()

	// The monitor follows links on behalf of the program, and must not follow them forever.
	t.Run("paths that never end are refused", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, writeCode)
		wantOutput(t, r, "os.symlink('/dev/../tmp/loop', '/tmp/loop'); puts('/tmp/loop')", "Too many levels of symbolic links")
		wantOutput(t, r, "os.symlink('/proc/../tmp/other', '/tmp/other'); puts('/tmp/other')", "Permission denied")
		wantOutput(t, r, `
os.mkfifo('/tmp/pipe')
try: os.open('/tmp/pipe', os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK)
except OSError as e: print(e.strerror)
`, "No such device or address")
		wantOutput(t, r, "puts('/tmp/file')", "written")
	})

	// A flood of calls from many programs and threads is served correctly.
	t.Run("a flood of calls is served", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		flood := `
import os, socket, sys, threading
me, done = sys.argv[1], []
listener = socket.create_server(('127.0.0.1', 0), backlog=100)
def work(i):
    for k in range(20):
        name = 'flood-%s-%d-%d' % (me, i, k)
        open(name, 'w').close(); os.rename(name, name + '.x'); os.unlink(name + '.x')
        os.mkdir(name); os.rmdir(name)
        try: open('` + m.outside + `/' + name, 'w')
        except OSError: pass
    socket.create_connection(listener.getsockname()).close()
    done.append(i)
threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
for t in threads: t.start()
for t in threads: t.join()
print(len(done))
`
		writeFile(t, filepath.Join(m.work, "flood.py"), flood)
		wantOutput(t, r, "import os; every = [subprocess.Popen([sys.executable, 'flood.py', str(i)], stdout=subprocess.PIPE, text=True) for i in range(8)]; print(sum(int(p.communicate()[0]) for p in every), [n for n in os.listdir() if n.startswith('flood-')])", "128 []")
	})

	// A turn ends when the worker has lost its descriptors, and the next input gets a new worker.
	t.Run("a worker without its descriptors is replaced", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		const opened = "import os; opened = [fd for fd in map(int, os.listdir('/proc/self/fd')) if os.path.exists('/proc/self/fd/%d' % fd)]\n"
		for what, code := range map[string]string{
			"closes all":           "import os; os.closerange(0, 4096)",
			"closes its channel":   "import os; os.closerange(3, 4096)",
			"puts others over all": opened + "n = os.open('/dev/null', os.O_RDWR); [os.dup2(n, fd) for fd in opened if fd != n]",
			"puts a pipe over all": opened + "a, b = os.pipe(); [os.dup2(b, fd) for fd in opened if fd not in (a, b)]",
			"sends invalid frames": opened + "for fd in opened:\n  if 'pipe' in os.readlink('/proc/self/fd/%d' % fd):\n    os.set_blocking(fd, False)\n    try: os.write(fd, b'\xff' * 100000)\n    except OSError: pass",
		} {
			t.Run(what, func(t *testing.T) {
				if got := r.RunCode(t, code); got.Outcome == "" || got.Outcome == string(timeline.OutcomeOK) {
					t.Errorf("the turn ended with %q: %s", got.Outcome, got.Transcript())
				}
				wantOutput(t, r, "print(6 * 7)", "42")
			})
		}
	})
}

func TestPendingCalls(t *testing.T) {
	t.Parallel()

	// When too many calls wait for the user, further ones are refused at once, and the waiting ones
	// do not block others.
	t.Run("do not block other calls", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		box := newSandbox(m)
		box.AskUser = true
		r := openSession(t, m, box)
		turn := r.StartTurn(t, `
import os, threading, time
refused = []
def hold():
    try: open('`+m.outside+`/asked', 'w')
    except OSError as e: refused.append(e.strerror)
def held():
    n = 0
    for t in os.listdir('/proc/self/task'):
        try: n += open('/proc/self/task/%s/syscall' % t).read().split()[0] in ('257', '56')
        except OSError: pass
    return n
threading.stack_size(1 << 18)
threads = [threading.Thread(target=hold) for _ in range(600)]
for t in threads: t.start()
while len(refused) < 88 or held() < 512: time.sleep(0.01)
open('here', 'w').close()
print('made', len(refused))
for t in threads: t.join()
print(len(refused), set(refused))
`)
		p := waitPermission(t, r, turn)
		r.WaitEvent(t, "the file of the call that does not wait", func(e timeline.Event) bool {
			text, ok := e.Body.(timeline.Text)
			return ok && strings.Contains(string(text.Data), "made 88")
		})
		if err := r.Session.AnswerPermission(t.Context(), p.ID, false); err != nil {
			t.Fatal(err)
		}
		waitTurnEnd(t, r, turn, "600 {'Read-only file system'}")
	})

	// A supervisor that is killed while a call waits for the user leaves no process behind.
	t.Run("leave no process behind when the supervisor is killed", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		cmd := exec.CommandContext(t.Context(), testexec.OwnPath())
		cmd.Env = append(m.env, holdEnv+"="+m.work)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Wait() }()
		if output, err := bufio.NewReader(out).ReadString('\n'); output != "held\n" {
			_ = cmd.Process.Kill()
			t.Fatalf("got %q, %v", output, err)
		}
		var left []unix.PollFd
		for _, pid := range readDescendants(cmd.Process.Pid) {
			if fd, err := unix.PidfdOpen(pid, 0); err == nil {
				defer unix.Close(fd)
				left = append(left, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			}
		}
		if len(left) < 3 { // the monitor, the worker and a shell
			t.Errorf("got %d processes before the kill, want 3", len(left))
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for len(left) > 0 {
			n, err := unix.Poll(left, 20_000)
			if err == unix.EINTR {
				continue
			}
			if n <= 0 {
				t.Fatalf("%d processes outlive their supervisor (%v)", len(left), err)
			}
			left = slices.DeleteFunc(left, func(p unix.PollFd) bool { return p.Revents != 0 })
		}
		if _, err := os.Stat(filepath.Join(m.outside, "asked")); err == nil {
			t.Error("the held call succeeded")
		}
	})
}

// holdEnv makes this program open a session in the directory that it names, in which a call waits
// for the user.
const holdEnv = "ESCAPES_HOLD"

func runHeldSession(work string) (status int) {
	fmt.Println(holdSession(work))
	return 1
}

func holdSession(work string) error {
	ctx := context.Background()
	sup, err := supervisor.New(&supervisor.Options{Dir: filepath.Join(work, "..", "..", "sessions")})
	if err != nil {
		return err
	}
	spec := python.Spec(python.Options{Path: interpreter})
	spec.Dir, spec.Sandbox = work, &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, AskUser: true}
	s, err := sup.Open(ctx, "main", spec)
	if err != nil {
		return err
	}
	turn, err := s.Submit(ctx, "import os, signal, subprocess\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\nchild = subprocess.Popen(['sh', '-c', 'trap \"\" HUP; while :; do sleep 100; done'], start_new_session=True)\nopen('"+filepath.Join(work, "..", "..", "outside")+"/asked', 'w')")
	if err != nil {
		return err
	}
	reply, err := s.Wait(ctx, turn, nil)
	if err != nil || reply.InputRequest == nil || reply.InputRequest.Permission == nil {
		return fmt.Errorf("got %+v, %v; want a question", reply, err)
	}
	fmt.Println("held")
	testexec.BlockForever()
	return nil
}

// readDescendants returns the processes that a process started, directly or indirectly.
func readDescendants(pid int) (all []int) {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, list := range lists {
		for word := range strings.FieldsSeq(readText(list)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(append(all, child), readDescendants(child)...)
			}
		}
	}
	return all
}

func TestSandboxMounts(t *testing.T) {
	t.Parallel()

	// A home directory and a workspace that are symbolic links are confined like their targets.
	t.Run("holds if home and workspace are links", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		sandboxcheck.RequireLayers(t, m.base)
		home, work := filepath.Join(m.base, "linked-home"), filepath.Join(m.base, "linked-work")
		for link, to := range map[string]string{home: m.home, work: filepath.Join(home, "project")} {
			if err := os.Symlink(to, link); err != nil {
				t.Fatal(err)
			}
		}
		spec := python.Spec(python.Options{Path: interpreter})
		spec.Dir, spec.Sandbox = work, &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, NoNotice: true}
		r := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: m.sessions, Env: append(slices.Clone(m.env), "HOME="+home)}, spec)
		r.WaitUntilReady(t)
		r.RunCode(t, writeCode+`
def gets(path):
    try: print(open(path).read())
    except OSError as e: print(e.strerror)
`)
		for _, dir := range []string{home, m.home} {
			wantOutput(t, r, "gets('"+dir+"/.ssh/id_ed25519')", "No such file or directory")
			wantOutput(t, r, "puts('"+dir+"/.bashrc')", "Read-only file system")
			wantOutput(t, r, "puts('"+dir+"/.cache/kept'); gets('"+dir+"/.cache/kept')", "written\nfrom inside")
		}
		for _, dir := range []string{work, m.work, home + "/project"} {
			wantOutput(t, r, "puts('"+dir+"/new')", "written")
			wantOutput(t, r, "puts('"+dir+"/.git/hooks/pre-push')", "Read-only file system")
			wantOutput(t, r, "puts('"+dir+"/.envrc')", "Read-only file system")
		}
		if _, err := os.Stat(filepath.Join(m.home, ".cache/kept")); err == nil {
			t.Error("the cache outside was written")
		}
	})

	// Unusual mounts, and a surrounding namespace, do not prevent a session.
	t.Run("starts on unusual mounts", func(t *testing.T) {
		t.Parallel()
		for what, prepare := range map[string]string{
			"in a user namespace":                   "true",
			"a filesystem in the workspace":         `mkdir -p "$ESCAPES_TRY/data" && mount -t tmpfs t "$ESCAPES_TRY/data"`,
			"a directory of it mounted over itself": `mkdir -p "$ESCAPES_TRY/vendor" && mount --bind "$ESCAPES_TRY/vendor" "$ESCAPES_TRY/vendor"`,
			"a mount over its hooks":                `mount -t tmpfs t "$ESCAPES_TRY/.git/hooks"`,
			"all of the workspace in memory":        `mount -t tmpfs t "$ESCAPES_TRY" && cd "$ESCAPES_TRY"`,
			"the files of sessions in memory":       `mkdir -p "$HOME/memory" && mount -t tmpfs t "$HOME/memory" && export TMPDIR="$HOME/memory"`,
			"a read-only home":                      `mount --bind "$HOME" "$HOME" && mount -o remount,bind,ro "$HOME"`,
			"a hidden mount":                        `mkdir -p "$HOME/twice" && mount -t tmpfs t "$HOME/twice" && mount -t tmpfs t "$HOME/twice"`,
		} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				attributes := rootAttributes()
				attributes.Cloneflags |= unix.CLONE_NEWNS
				m.env = append(m.env, "TMPDIR="+m.base)
				if got := m.runTry(t, prepare, attributes); !strings.HasPrefix(got, "started: sandbox workspace: it writes "+m.work) {
					t.Errorf("got %q, want a start", got)
				}
			})
		}
	})
}
