package launch_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// descendantsScript is a worker that starts every kind of descendant that is known to outlive its
// parents, prints their pids in a line, and waits.
const descendantsScript = `
import os, signal, sys, time
r, w = os.pipe()
def relative(name, prepare):
    if os.fork() == 0:
        prepare()
        os.write(w, b"%s=%d\n" % (name.encode(), os.getpid()))
        while True: time.sleep(1000)
def ignore_all():
    for s in range(1, 65):
        try: signal.signal(s, signal.SIG_IGN)
        except (OSError, ValueError): pass
def silent():
    for fd in 0, 1, 2: os.close(fd)
def daemon():
    os.setsid()
    if os.fork() != 0: os._exit(0)
    os.setsid()
    ignore_all()
    silent()
def grandchild():
    if os.fork() != 0:
        while True: time.sleep(1000)
    os.setsid()
def orphan():
    if os.fork() != 0: os._exit(0)
def stopped():
    os.write(w, b"%s=%d\n" % (b"stopped", os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)
def nohup():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.setpgid(0, 0)
def monitors_group():
    os.setpgid(0, os.getsid(0))
def bare():
    os.execve(sys.executable, [sys.executable, "-c", "import os,time; os.setsid(); os.write(%d, b'bare=%%d\\n' %% os.getpid()); time.sleep(1000)" % w], {})
os.set_inheritable(w, True)
kinds = dict(child=lambda: None, setsid=os.setsid, nohup=nohup, ignores=ignore_all, grandchild=grandchild,
    daemon=daemon, orphan=orphan, stopped=stopped, monitors_group=monitors_group, bare=bare)
if os.getsid(0) == os.getpid(): del kinds["monitors_group"] # there is no monitor
for name, prepare in kinds.items(): relative(name, prepare)
got = b""
while got.count(b"\n") < len(kinds): got += os.read(r, 1000)
os.write(1, b"family " + got.replace(b"\n", b" ") + b"\n")
while True: time.sleep(1000)
`

func parseDescendants(t testing.TB, line string) map[string]int {
	t.Helper()
	pids := map[string]int{}
	for f := range strings.FieldsSeq(line) {
		name, pid, _ := strings.Cut(f, "=")
		n, err := strconv.Atoi(pid)
		if err != nil || !testexec.IsAlive(n) {
			t.Fatalf("got %q, want a living process", f)
		}
		pids[name] = n
	}
	if len(pids) < 9 {
		t.Fatalf("got %q, want every kind of descendant", line)
	}
	return pids
}

// treeEndTimeout is how soon a whole tree must have ended. It normally takes a tenth of a second, but
// on a busy machine every process of the tree may have to wait for the CPU.
const treeEndTimeout = testTimeout

// wantAllEnded checks that all descendants end, and how soon.
func wantAllEnded(t testing.TB, since time.Time, pids map[string]int) {
	t.Helper()
	for name, pid := range pids {
		wait.Until(t, name+" has ended", func() bool { return !testexec.IsAlive(pid) })
	}
	took := time.Since(since)
	t.Logf("%d processes ended within %s", len(pids), took.Round(10*time.Microsecond))
	if took > treeEndTimeout {
		t.Errorf("got the end after %s, want it within %s", took, treeEndTimeout)
	}
}

func TestTreeEnd(t *testing.T) {
	t.Parallel()

	t.Run("ends every descendant with the worker", func(t *testing.T) {
		t.Parallel()
		for name, end := range map[string]func(t *testing.T, w testWorker){
			"close": func(t *testing.T, w testWorker) { w.Close() },
			"kill":  func(t *testing.T, w testWorker) { w.Kill() },
			"SIGKILL for the worker": func(t *testing.T, w testWorker) {
				w.Signal(monitorproto.Kill, monitorproto.Worker)
			},
			"the worker exits": func(t *testing.T, w testWorker) {
				w.Signal(monitorproto.Terminate, monitorproto.Worker)
			},
			"the monitor is killed": func(t *testing.T, w testWorker) {
				syscall.Kill(parentPID(t, w.PID()), syscall.SIGKILL)
			},
			"the monitor is stopped, then kill": func(t *testing.T, w testWorker) {
				// Kill gives a stopped monitor some time before it kills it.
				monitor := parentPID(t, w.PID())
				syscall.Kill(monitor, syscall.SIGSTOP)
				// It may still obey the kill until all its threads have stopped.
				wait.Until(t, "the monitor is stopped", func() bool { return isStopped(t, monitor) })
				w.Kill()
			},
		} {
			t.Run(name, func(t *testing.T) {
				w := startPython(t, descendantsScript)
				pids := parseDescendants(t, w.waitLine(t, "family "))
				pids["worker"] = w.PID()
				since := time.Now()
				if strings.Contains(name, "the monitor") {
					// Without a monitor, a process is found only by session, ancestry or environment.
					// This one has lost all three.
					syscall.Kill(pids["bare"], syscall.SIGKILL)
				}
				end(t, w)
				waitClosed(t, "exit", w.Exited())
				waitClosed(t, "end of the tree", w.Done())
				wantAllEnded(t, since, pids)
				if r := w.Survivors(); len(r) > 0 {
					t.Errorf("got survivors %v, want none", r)
				}
				wantMonitorKilled := strings.Contains(name, "the monitor")
				if e := w.Exit(); e.MonitorKilled != wantMonitorKilled || e.Signal == "" {
					t.Errorf("got %+v, want MonitorKilled %t", e, wantMonitorKilled)
				}
			})
		}
	})

	t.Run("ends every descendant with the supervisor", func(t *testing.T) {
		t.Parallel()
		for name, end := range map[string]func(s *supervisorProcess){
			"exit":    func(s *supervisorProcess) { s.in.Close() },
			"SIGKILL": func(s *supervisorProcess) { s.Process.Kill() },
			"SIGKILL of its group": func(s *supervisorProcess) {
				syscall.Kill(-s.Process.Pid, syscall.SIGKILL)
			},
			"SIGHUP of its group": func(s *supervisorProcess) {
				syscall.Kill(-s.Process.Pid, syscall.SIGHUP)
			},
		} {
			t.Run(name, func(t *testing.T) {
				// Under nohup SIGHUP would be ignored.
				cmd := exec.Command(findProgram(t, "env"), "--default-signal=HUP", testBinary(t), findProgram(t, "python3"), "-c", descendantsScript)
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				s := runSupervisor(t, cmd, "supervise")
				line, err := s.out.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				pids := parseDescendants(t, strings.TrimPrefix(line, "family "))
				pids["worker"] = s.worker
				pids["monitor"] = parentPID(t, s.worker)
				since := time.Now()
				end(s)
				wantAllEnded(t, since, pids)
			})
		}
	})

	t.Run("Close ends what it can find without a monitor", func(t *testing.T) {
		t.Parallel()
		s := runSupervisor(t, exec.Command(testBinary(t), findProgram(t, "python3"), "-c", descendantsScript), "direct")
		line, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pids := parseDescendants(t, strings.TrimPrefix(line, "family "))
		pids["worker"] = s.worker
		syscall.Kill(pids["bare"], syscall.SIGKILL) // has neither session nor tag nor parent
		since := time.Now()
		fmt.Fprintln(s.in, "close")
		wantAllEnded(t, since, pids)
		for _, want := range []string{"ended: killed by SIGKILL\n", "closed: <nil> []\n"} {
			if line, _ := s.out.ReadString('\n'); line != want {
				t.Errorf("got %q, want %q", line, want)
			}
		}
	})
}

// isStopped reports whether a signal has stopped every thread of a process.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("got %v, %v, want the threads of process %d", threads, err, pid)
	}
	for _, thread := range threads {
		if readStat(t, thread)[0] != "T" {
			return false
		}
	}
	return true
}

// readStat reads the kernel's status of a process or thread, from the state field on:
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
func readStat(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.Fields(rest)
}

func parentPID(t *testing.T, pid int) int {
	t.Helper()
	parent, err := strconv.Atoi(readStat(t, fmt.Sprintf("/proc/%d", pid))[1])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

func TestTreeEndForkBomb(t *testing.T) {
	// Chains of processes that fork and exit as fast as they can: each pid is stale as soon as it is
	// read. They exit after two minutes even if this test fails.
	w := startPython(t, `
import os, time
limit = time.monotonic() + 120
for i in range(6):
    if os.fork() == 0:
        if i % 2: os.setsid()
        while time.monotonic() < limit:
            if os.fork() != 0: break
        os._exit(0)
os.write(1, b"ready\n")
os.read(0, 1)`)
	w.waitLine(t, "ready")
	since := time.Now()
	w.Kill()
	waitClosed(t, "end of the tree", w.Done())
	took := time.Since(since)
	t.Logf("ended within %s", took)
	if took > treeEndTimeout {
		t.Errorf("got the end after %s, want it within %s", took, treeEndTimeout)
	}
	if r := w.Survivors(); len(r) > 0 {
		t.Errorf("got survivors %v, want none", r)
	}
}

func TestExitedWithOpenTerminal(t *testing.T) {
	t.Parallel()
	w := startBash(t, "trap '' HUP TERM; setsid sleep 1000 & echo started; exit 7")
	w.waitLine(t, "started")
	waitClosed(t, "exit", w.Exited())
	since := time.Now()
	if got := w.Exit().String(); got != "exit status 7" {
		t.Errorf("got %q, want exit status 7", got)
	}
	waitClosed(t, "end of the tree", w.Done())
	w.waitAll(t)
	if took := time.Since(since); took > treeEndTimeout {
		t.Errorf("got end of file %s after the exit, want at most %s", took, treeEndTimeout)
	}
}

func TestNotices(t *testing.T) {
	t.Parallel()

	t.Run("report a stopped worker that was continued", func(t *testing.T) {
		t.Parallel()
		for signal, name := range map[string]string{"STOP": "SIGSTOP", "TSTP": "SIGTSTP"} {
			w := startBash(t, "kill -"+signal+" $$; echo continued")
			w.waitLine(t, "continued")
			select {
			case got := <-w.Notices():
				if want := "the worker was stopped (" + name + ") and continued"; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			case <-time.After(testTimeout):
				t.Errorf("%s: got no notice", name)
			}
		}
	})

	t.Run("a worker that stops repeatedly still finishes", func(t *testing.T) {
		t.Parallel()
		w := startBash(t, "for i in 1 2 3 4 5 6; do kill -STOP $$; done; echo through")
		w.waitLine(t, "through")
	})
}

func TestBackgroundRead(t *testing.T) {
	t.Parallel()

	t.Run("a worker in the background gets the terminal", func(t *testing.T) {
		t.Parallel()
		// As in a start in which the worker is faster than the monitor: SIGTTIN stops it.
		w := startPython(t, `
import os, signal, time
r, wr = os.pipe()
if os.fork() == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpgrp())
    os.close(wr)
    while True: time.sleep(1000)
os.close(wr)
while os.tcgetpgrp(0) == os.getpgrp(): pass
os.write(1, b"reading\n")
os.write(1, b"got " + os.read(0, 100))`)
		w.waitLine(t, "reading")
		select {
		case got := <-w.Notices():
			if !strings.Contains(got, "SIGTTIN") {
				t.Errorf("got %q, want SIGTTIN", got)
			}
		case <-time.After(testTimeout):
			t.Fatal("got no notice")
		}
		if err := w.Terminal().WriteInput([]byte("text\n"), false); err != nil {
			t.Fatal(err)
		}
		if got := w.waitLine(t, "got "); got != "text" {
			t.Errorf("got %q, want text", got)
		}
	})

	t.Run("a read right after the start causes no notice", func(t *testing.T) {
		t.Parallel()
		for range 20 {
			w := startProgram(t, "head", "-n1")
			if err := w.Terminal().WriteInput([]byte("first\n"), false); err != nil {
				t.Fatal(err)
			}
			w.waitLine(t, "first")
			waitClosed(t, "end", w.Done())
			if got, open := <-w.Notices(); open {
				t.Errorf("got notice %q, want none", got)
			}
		}
	})
}
