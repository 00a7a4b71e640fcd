//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
)

// privateEnd bounds the end of a private daemon. It is shorter than the time after which the daemon
// gives up an orderly end.
const privateEnd = 9 * time.Second

// A privateDaemon is repl serve --stdio, with the test as its parent.
type privateDaemon struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
	lastID int
}

// startPrivate starts a private daemon. stderr is its standard error; nil collects it.
func (h home) startPrivate(t *testing.T, stderr *os.File, flags ...string) *privateDaemon {
	t.Helper()
	d := &privateDaemon{t: t, cmd: h.command(t, append([]string{"serve", "--stdio"}, flags...)...)}
	in, err := d.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.in, d.out, d.cmd.Stderr = in, bufio.NewReaderSize(out, 1<<20), &d.stderr
	if stderr != nil {
		d.cmd.Stderr = stderr
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
	})
	return d
}

// send writes a request.
func (d *privateDaemon) send(method string, params any) (id int) {
	d.t.Helper()
	d.lastID++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": d.lastID, "method": method, "params": params})
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		d.t.Fatal(err)
	}
	return d.lastID
}

// An answerLine is the answer to a request.
type answerLine struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  struct {
		Message string `json:"message"`
	} `json:"error"`
}

// read reads the next answer, and skips notifications.
func (d *privateDaemon) read() (a answerLine) {
	d.t.Helper()
	for a.ID == 0 {
		line, err := d.out.ReadBytes('\n')
		if err != nil {
			d.t.Fatalf("%v; standard error: %s", err, &d.stderr)
		}
		if err := json.Unmarshal(line, &a); err != nil {
			d.t.Fatalf("%.200q: %v", line, err)
		}
	}
	return a
}

// call makes one call and decodes its result.
func (d *privateDaemon) call(method string, params, result any) {
	d.t.Helper()
	id := d.send(method, params)
	a := d.read()
	if a.ID != id || a.Result == nil {
		d.t.Fatalf("%s: answer %+v", method, a)
	}
	if result != nil {
		if err := json.Unmarshal(a.Result, result); err != nil {
			d.t.Fatal(err)
		}
	}
}

// open creates the session "main".
func (d *privateDaemon) open() {
	d.t.Helper()
	d.call(protocol.MethodCreate, protocol.CreateParams{Name: "main"}, nil)
}

// run runs one turn in "main", and returns its reply as text.
func (d *privateDaemon) run(code string) string {
	d.t.Helper()
	var reply json.RawMessage
	d.call(protocol.MethodStart, protocol.StartParams{Session: "main", Input: code, WaitMS: testTimeout.Milliseconds()}, &reply)
	return string(reply)
}

// wantEnd checks that the daemon ends in time, with this status.
func (d *privateDaemon) wantEnd(status int) {
	d.t.Helper()
	began := time.Now()
	_ = d.cmd.Wait()
	if got, took := exitStatusOf(d.t, d.cmd), time.Since(began); got != status || took > privateEnd {
		d.t.Errorf("it ended after %s with status %d, want %d; standard error: %q", took, got, status, &d.stderr)
	}
}

// countProcesses returns how much of the process list mentions this home.
func (h home) countProcesses(t *testing.T) (n int) {
	t.Helper()
	for _, text := range readProcessInfo(t) {
		n += strings.Count(text, h.tmp)
	}
	return n
}

// wantNoProcesses waits until no process of this home is left.
func (h home) wantNoProcesses(t *testing.T) {
	t.Helper()
	wait.Until(t, "all processes have ended", func() bool { return h.countProcesses(t) == 0 })
}

// listFiles returns the files in the directories that a daemon uses.
func (h home) listFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, dir := range []string{h.dir, h.tmp, h.envValue("XDG_RUNTIME_DIR"), h.envValue("XDG_STATE_HOME"), h.envValue("XDG_CONFIG_HOME")} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			files = append(files, path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestPrivateDaemon(t *testing.T) {
	t.Parallel()

	t.Run("answers on its standard output, and ends at the end of input", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		d := h.startPrivate(t, nil, "--parent", fmt.Sprint(os.Getpid()))
		d.open()
		if r := d.run("6 * 7"); !strings.Contains(r, `"text":"42\n"`) {
			t.Errorf("got %s", r)
		}
		var clients protocol.ClientList
		d.call(protocol.MethodClients, struct{}{}, &clients)
		if len(clients.Clients) != 1 || !clients.Clients[0].Self {
			t.Errorf("clients: %+v", clients)
		}
		if err := d.in.Close(); err != nil {
			t.Fatal(err)
		}
		d.wantEnd(0)
		if d.stderr.Len() > 0 {
			t.Errorf("standard error: %s", &d.stderr)
		}
		h.wantNothingLeft(t)
		h.wantNoProcesses(t)
	})

	t.Run("100 starts leave nothing", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		start := func(withSession bool) {
			d := h.startPrivate(t, nil)
			d.call(protocol.MethodPing, struct{}{}, nil)
			if withSession {
				d.open()
				d.run("1")
			}
			_ = d.in.Close()
			d.wantEnd(0)
		}
		start(true)
		before := h.listFiles(t) // with the directory for sessions
		for i := range 100 {
			start(i%10 == 0)
		}
		if after := h.listFiles(t); !slices.Equal(after, before) {
			t.Errorf("files before:\n%q\nand after:\n%q", before, after)
		}
		h.wantNothingLeft(t)
		h.wantNoProcesses(t)
	})

	t.Run("waits for a parent that does not read", func(t *testing.T) {
		t.Parallel()
		d := newHome(t).startPrivate(t, nil)
		d.open()
		d.run("print('x' * 1_000_000)")
		const calls = 20
		for range calls {
			d.send(protocol.MethodRead, protocol.ReadParams{Session: "main"})
		}
		for range calls {
			if a := d.read(); !bytes.Contains(a.Result, []byte(strings.Repeat("x", 1000))) {
				t.Fatalf("call %d: got %.200s, %+v", a.ID, a.Result, a.Error)
			}
		}
		if r := d.run("6 * 7"); !strings.Contains(r, `"text":"42\n"`) {
			t.Errorf("got %s", r)
		}
	})

	t.Run("a full standard error stops nothing", func(t *testing.T) {
		t.Parallel()
		full := newFullPipe(t)
		d := newHome(t).startPrivate(t, full, "--log-level", "debug")
		d.open()
		for range 300 { // more lines than the daemon keeps
			d.call(protocol.MethodGet, protocol.NameParams{Session: "main"}, nil)
		}
		_ = d.in.Close()
		d.wantEnd(0)
	})

	t.Run("a closed standard error stops nothing", func(t *testing.T) {
		t.Parallel()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		d := newHome(t).startPrivate(t, w, "--log-level", "debug")
		d.call(protocol.MethodPing, struct{}{}, nil)
		_ = r.Close()
		for range 10 {
			d.call(protocol.MethodPing, struct{}{}, nil)
		}
		_ = d.in.Close()
		d.wantEnd(0)
	})

	t.Run("Ctrl-C is for the parent", func(t *testing.T) {
		t.Parallel()
		d := newHome(t).startPrivate(t, nil)
		d.open()
		d.run("x = 41")
		for range 3 {
			if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
		if r := d.run("import signal; x + 1, signal.getsignal(signal.SIGINT) is not signal.SIG_IGN"); !strings.Contains(r, `(42, True)`) {
			t.Errorf("got %s", r)
		}
		if err := stopProgram(d.cmd); err != nil {
			t.Fatal(err)
		}
		d.wantEnd(143)
	})
}

// A parent that does not read cannot keep its daemon from ending.
func TestPrivateDaemon_Unread(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		of     func(d *privateDaemon) error
		status int
	}{
		"end of input": {func(d *privateDaemon) error { return d.in.Close() }, 0},
		"SIGTERM":      {func(d *privateDaemon) error { return stopProgram(d.cmd) }, 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			d := h.startPrivate(t, nil)
			d.open()
			d.run("print('x' * 1_000_000)")
			for range 20 {
				d.send(protocol.MethodRead, protocol.ReadParams{Session: "main"})
			}
			if _, err := d.out.Peek(1); err != nil { // it has begun to answer
				t.Fatal(err)
			}
			if err := end.of(d); err != nil {
				t.Fatal(err)
			}
			exited := make(chan int, 1)
			go func() { // not cmd.Wait, which closes the pipe
				s, err := d.cmd.Process.Wait()
				if err == nil {
					exited <- s.ExitCode()
				}
			}()
			select {
			case status := <-exited:
				if status != end.status {
					t.Errorf("status %d, want %d", status, end.status)
				}
			case <-time.After(privateEnd):
				t.Error("it has not ended")
			}
			h.wantNothingLeft(t)
			h.wantNoProcesses(t)
		})
	}
}

// newFullPipe returns the write end of a pipe that has no room. Nobody reads it.
func newFullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	for b := make([]byte, 4096); len(b) > 0; {
		if _, err := unix.Write(int(w.Fd()), b); err != nil {
			t.Fatal(err)
		}
		room := []unix.PollFd{{Fd: int32(w.Fd()), Events: unix.POLLOUT}}
		if n, err := unix.Poll(room, 0); err != nil && !errors.Is(err, syscall.EINTR) {
			t.Fatal(err)
		} else if n == 0 {
			break
		}
	}
	return w
}

// privateParent is a program that has a private daemon. It reports the processes, and then waits.
const privateParent = `
import json, os, signal, subprocess, sys
what, command = sys.argv[1], sys.argv[2:]
if 'parent' in what:
    command += ['--parent', str(os.getpid())]
if 'wrapper' in what:
    command = ['/bin/sh', '-c', '"$@"; exit $?', 'sh'] + command
p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
last = 0
def send(method, **params):
    global last
    last += 1
    p.stdin.write(json.dumps({'jsonrpc': '2.0', 'id': last, 'method': method, 'params': params}).encode() + b'\n')
    p.stdin.flush()
    return last
def call(method, **params):
    id = send(method, **params)
    while True:
        a = json.loads(p.stdout.readline())
        if a.get('id') == id:
            return a['result']
pids = [call('server/info')['pid']]
call('session/create', name='main')
events = call('turn/start', session='main', input='import os, sys, time; os.getpid()', wait_ms=60000)['events']
pids += [int(e['text']) for e in events if e.get('kind') == 'result']
if 'fork' in what:
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    pids.append(child)
if 'busy' in what:
    call('turn/start', session='main', input='time.sleep(600)')
if 'full' in what: # more than the pipe holds, which nobody reads
    call('turn/start', session='main', input='sys.stdout.write("x" * 1000000)', wait_ms=60000)
    for _ in range(20):
        send('timeline/read', session='main')
print(json.dumps(pids), flush=True)
while True:
    signal.pause()
`

// A private daemon and its workers end when the parent is killed, whatever the parent does.
func TestPrivateDaemon_Parent(t *testing.T) {
	t.Parallel()
	for _, what := range []string{
		"plain", "parent", "busy", "full", "fork", "parent fork", "fork busy", "fork full", "parent wrapper", "parent wrapper fork full", "stopped fork",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			parent := h.command(t, what, replbin.Path(), "serve", "--stdio")
			parent.Path, parent.Args = "/usr/bin/env", append([]string{"env", "python3", "-c", privateParent}, parent.Args[1:]...)
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			parent.Stderr = os.Stderr
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = parent.Process.Kill() })
			var pids []int // the daemon, the worker and the forked child
			if err := json.NewDecoder(out).Decode(&pids); err != nil || len(pids) < 2 {
				t.Fatalf("got %v, %v", pids, err)
			}
			if h.countProcesses(t) == 0 {
				t.Error("the process list does not show the processes of this test")
			}
			if strings.Contains(what, "stopped") {
				if err := parent.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			_ = parent.Process.Kill()
			_, _ = parent.Process.Wait()
			for _, pid := range pids[:2] {
				if !wait.Within(privateEnd, func() bool { return !testexec.IsAlive(pid) }) {
					t.Errorf("process %d of %v has not ended", pid, pids)
				}
			}
			for _, child := range pids[2:] {
				if !testexec.IsAlive(child) {
					t.Error("the forked child has ended, so it held no pipe")
				}
				_ = syscall.Kill(child, syscall.SIGKILL)
			}
			h.wantNothingLeft(t)
			h.wantNoProcesses(t)
		})
	}
}

// A client learns why there is no daemon from standard error and the exit status.
func TestPrivateDaemon_BadStart(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	gone := exec.Command(replbin.Path(), "version")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		flags  []string
		status int
		says   string
	}{
		{[]string{"--stdio", "--socket", "x"}, 2, "--stdio excludes --socket"},
		{[]string{"--stdio", "--detach"}, 2, "--stdio excludes --detach"},
		{[]string{"--stdio", "--daemon-idle-timeout", "1h"}, 2, "--stdio excludes --daemon-idle-timeout"},
		{[]string{"--stdio", "--parent", "0"}, 2, "--parent 0"},
		{[]string{"--stdio", "--parent", "me"}, 2, `invalid value "me"`},
		{[]string{"--stdio", "--max-sessions", "0"}, 2, "--max-sessions 0"},
		{[]string{"--stdio", "file.py"}, 2, "file.py"},
		{[]string{"--parent", "1"}, 2, "--parent needs --stdio"},
		{[]string{"--stdio", "--parent", fmt.Sprint(gone.Process.Pid)}, 1, "the parent has ended"},
		{[]string{"--stdio", "--session-dir", "/dev/null/none"}, 1, "/dev/null"},
	} {
		t.Run(strings.Join(test.flags, " "), func(t *testing.T) {
			t.Parallel()
			r := h.runRepl(t, "", append([]string{"serve"}, test.flags...)...)
			if r.status != test.status || r.stdout != "" || !strings.Contains(r.stderr, test.says) {
				t.Errorf("%v, want status %d and %q", r, test.status, test.says)
			}
		})
	}

	t.Run("no interpreter", func(t *testing.T) {
		t.Parallel()
		d := newHome(t).startPrivate(t, nil)
		d.send(protocol.MethodCreate, protocol.CreateParams{Runtime: "/nowhere/python"})
		if a := d.read(); !strings.Contains(a.Error.Message, "/nowhere/python") {
			t.Errorf("got %+v", a)
		}
		d.call(protocol.MethodPing, struct{}{}, nil)
	})

	t.Run("a session of another program is not visible", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		h.startPrivate(t, nil).open()
		d := h.startPrivate(t, nil)
		var list struct {
			Sessions []session.Info `json:"sessions"`
		}
		if d.call(protocol.MethodList, struct{}{}, &list); len(list.Sessions) != 0 {
			t.Errorf("got %+v", list)
		}
	})
}
