//go:build linux || darwin

package python_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

const nonce = "0123456789abcdef"

// patience is how long a worker may take for anything before a test fails.
const patience = 30 * time.Second

// text is what the terminal carried, or an output frame.
type text struct {
	stream ipc.Stream
	data   string
}

// ended says that the worker's channel and its terminal are at their end.
type ended struct{}

// A worker is a real Python worker on a terminal, driven by raw frames. Its
// methods are for the test's goroutine; the two readers only hand over bytes.
type worker struct {
	t        testing.TB
	cmd      *exec.Cmd
	terminal *os.File // the master
	send     *os.File
	raw      chan any // []byte of the terminal, ipc.Message, ended; closed by nobody, stopped by stop
	stop     chan struct{}

	ends   int    // of the channel and the terminal that have come
	tail   []byte // terminal bytes not merged yet
	stream ipc.Stream
	held   map[uint64]ipc.Message // placed frames whose marker has not come
	merged []any                  // text, ipc.Message and ended, in order
	turn   uint64
	onWait func(ipc.StdinWait) bool // takes a wait over when it returns true
}

type setup struct {
	python  string
	options python.Options
	env     []string
	dir     string
	noTurn0 bool // return before idle(0)
}

// start starts a worker and waits for its first idle.
func start(t testing.TB, s setup) *worker {
	t.Helper()
	o := s.options
	o.Path = s.python
	if o.CacheDir == "" {
		o.CacheDir = "-"
	}
	spec := python.Spec(o)
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	return launch(t, spec, s)
}

func launch(t testing.TB, spec workers.Spec, s setup) *worker {
	t.Helper()
	cmd, master, toWorkerW, fromWorkerR := spawn(t, spec, s)
	w := &worker{
		t: t, cmd: cmd, terminal: master, send: toWorkerW,
		raw: make(chan any, 64), stop: make(chan struct{}),
		stream: ipc.Stdout, held: map[uint64]ipc.Message{},
	}
	go w.readTerminal()
	go w.readChannel(fromWorkerR)
	t.Cleanup(func() {
		close(w.stop)
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		w.send.Close()
		master.Close()
		fromWorkerR.Close()
	})
	if !s.noTurn0 {
		w.ready()
		w.finish()
	}
	return w
}

// spawn starts a worker on a terminal of its own and returns our ends.
func spawn(t testing.TB, spec workers.Spec, s setup) (cmd *exec.Cmd, master, in, out *os.File) {
	t.Helper()
	files := t.TempDir()
	for name, data := range spec.Files {
		if err := os.WriteFile(filepath.Join(files, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	prepareTerminal(t, slave)
	toWorkerR, toWorkerW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromWorkerR, fromWorkerW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer toWorkerR.Close()
	defer fromWorkerW.Close()

	args := make([]string, len(spec.Args))
	for i, a := range spec.Args {
		args[i] = strings.ReplaceAll(a, workers.FilesDir, files)
	}
	cmd = exec.Command(spec.Path, args...)
	cmd.Dir = s.dir
	cmd.Env = append(cleanEnv(), "TERM=dumb", "PAGER=cat", "REPL_IPC=3,4,"+nonce)
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.ExtraFiles = []*os.File{toWorkerR, fromWorkerW}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, master, toWorkerW, fromWorkerR
}

// ready takes worker_ready, the first frame. Text of the start-up may overtake it:
// the two are on different ways.
func (w *worker) ready() ipc.WorkerReady {
	w.t.Helper()
	var before []any
	for {
		switch e := w.next().(type) {
		case ipc.WorkerReady:
			w.merged = append(before, w.merged...)
			return e
		case text:
			before = append(before, e)
		default:
			w.t.Fatalf("first came %+v after %v; want worker_ready", e, before)
		}
	}
}

// cleanEnv is this process's environment without what steers Python.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PYTHON") && !strings.HasPrefix(kv, "TERM=") && !strings.HasPrefix(kv, "MPL") {
			env = append(env, kv)
		}
	}
	return env
}

func prepareTerminal(t testing.TB, slave *os.File) {
	t.Helper()
	fd := int(slave.Fd())
	mode, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		t.Fatal(err)
	}
	mode.Oflag &^= unix.OPOST
	mode.Iflag &^= unix.IXON
	mode.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, setTermios, mode); err != nil {
		t.Fatal(err)
	}
}

func (w *worker) hand(v any) bool {
	select {
	case w.raw <- v:
		return true
	case <-w.stop:
		return false
	}
}

func (w *worker) readTerminal() {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.terminal.Read(buf)
		if n > 0 && !w.hand(append([]byte(nil), buf[:n]...)) {
			return
		}
		if err != nil {
			w.hand(ended{})
			return
		}
	}
}

func (w *worker) readChannel(r io.Reader) {
	for {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			w.hand(ended{})
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(r, payload); err != nil {
			w.hand(fmt.Errorf("a truncated frame: %w", err))
			return
		}
		m, err := ipc.Decode(payload, ipc.FromWorker)
		if err != nil {
			w.hand(fmt.Errorf("%w: %q", err, payload))
			return
		}
		if !w.hand(m) {
			return
		}
	}
}

// next is the next event in the true order.
func (w *worker) next() any {
	w.t.Helper()
	e, ok := w.nextWithin(patience)
	if !ok {
		w.t.Fatalf("nothing came within %v; unmerged %q, held %v", patience, w.tail, w.held)
	}
	return e
}

func (w *worker) nextWithin(d time.Duration) (any, bool) {
	w.t.Helper()
	var deadline <-chan time.Time
	for len(w.merged) == 0 {
		if deadline == nil {
			timer := time.NewTimer(d)
			defer timer.Stop()
			deadline = timer.C
		}
		select {
		case v := <-w.raw:
			w.take(v)
		case <-deadline:
			return nil, false
		}
	}
	e := w.merged[0]
	w.merged = w.merged[1:]
	return e, true
}

func (w *worker) take(v any) {
	w.t.Helper()
	switch v := v.(type) {
	case error:
		w.t.Fatal(v)
	case []byte:
		w.tail = append(w.tail, v...)
	case ipc.Message:
		if m := ipc.MarkOf(v); m != 0 {
			w.held[m] = v
		} else {
			w.merged = append(w.merged, v)
		}
	case ended:
		if w.ends++; w.ends == 2 {
			defer func() { w.merged = append(w.merged, v) }()
		}
	}
	w.merge()
}

// merge moves terminal bytes to merged, up to a marker whose frame has not come.
func (w *worker) merge() {
	prefix := []byte("\x1b_" + nonce + ";")
	for len(w.tail) > 0 {
		i := bytes.Index(w.tail, prefix)
		if i < 0 {
			keep := 0
			for j := min(len(w.tail), len(prefix)-1); j > 0; j-- {
				if bytes.HasPrefix(prefix, w.tail[len(w.tail)-j:]) {
					keep = j
					break
				}
			}
			w.add(w.tail[:len(w.tail)-keep])
			w.tail = w.tail[len(w.tail)-keep:]
			return
		}
		end := bytes.Index(w.tail[i:], []byte("\x1b\\"))
		if end < 0 {
			return
		}
		w.add(w.tail[:i])
		body := string(w.tail[i+len(prefix) : i+end])
		w.tail = w.tail[i:]
		switch {
		case body == "E":
			w.stream = ipc.Stderr
		case body == "O":
			w.stream = ipc.Stdout
		default:
			n, err := strconv.ParseUint(strings.TrimPrefix(body, "#"), 10, 64)
			if err != nil {
				w.t.Fatalf("marker %q", body)
			}
			m, ok := w.held[n]
			if !ok {
				return
			}
			delete(w.held, n)
			if o, ok := m.(ipc.Output); ok {
				w.merged = append(w.merged, text{o.Stream, string(o.Data)})
			} else {
				w.merged = append(w.merged, m)
			}
		}
		w.tail = w.tail[end+2:]
	}
}

func (w *worker) add(data []byte) {
	if len(data) > 0 {
		w.merged = append(w.merged, text{w.stream, string(data)})
	}
}

func (w *worker) tell(m ipc.Message) {
	w.t.Helper()
	frame, err := ipc.AppendFrame(nil, m)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.send.Write(frame); err != nil {
		w.t.Fatal(err)
	}
}

// A result is what one turn has brought, in order.
type result struct {
	events []any
	idle   *ipc.Idle
	end    *ipc.SessionEnd
}

// begin starts a turn.
func (w *worker) begin(code string) {
	w.t.Helper()
	w.turn++
	w.tell(ipc.TurnStart{Turn: w.turn, Input: []byte(code)})
}

// run runs one turn, answering its waits with answers: a line each, "" for end of file.
func (w *worker) run(code string, answers ...string) result {
	w.t.Helper()
	w.begin(code)
	return w.finish(answers...)
}

// finish collects events up to the turn's idle, or the worker's end.
func (w *worker) finish(answers ...string) result {
	w.t.Helper()
	var r result
	for {
		e := w.next()
		r.events = append(r.events, e)
		switch e := e.(type) {
		case ipc.StdinWait:
			if w.onWait != nil && w.onWait(e) {
				continue
			}
			if len(answers) == 0 {
				w.t.Fatalf("an unexpected wait %+v after %s", e, r.script())
			}
			w.answer(e, answers[0])
			answers = answers[1:]
		case ipc.Idle:
			if e.Turn != w.turn {
				w.t.Fatalf("idle of turn %d, want %d", e.Turn, w.turn)
			}
			r.idle = &e
			return r
		case ipc.SessionEnd:
			r.end = &e
		case ended:
			return r
		}
	}
}

func (w *worker) answer(wait ipc.StdinWait, answer string) {
	w.t.Helper()
	in := ipc.TurnInput{Turn: wait.Turn, Wait: wait.Wait, Input: []byte(answer), EOF: answer == ""}
	if answer != "" && !strings.HasSuffix(answer, "\n") {
		in.Input = append(in.Input, '\n')
	}
	w.tell(in)
}

// out is all text of the turn.
func (r result) out() string {
	var b strings.Builder
	for _, e := range r.events {
		if t, ok := e.(text); ok {
			b.WriteString(t.data)
		}
	}
	return b.String()
}

// errText is what came as standard error.
func (r result) errText() string {
	var b strings.Builder
	for _, e := range r.events {
		if t, ok := e.(text); ok && t.stream == ipc.Stderr {
			b.WriteString(t.data)
		}
	}
	return b.String()
}

// script is the turn in words: text as it is, <err> around standard error, and
// [image], [wait …], [line …] where those were.
func (r result) script() string {
	var b strings.Builder
	stream := ipc.Stdout
	turnTo := func(s ipc.Stream) {
		if s != stream {
			stream = s
			b.WriteString(map[ipc.Stream]string{ipc.Stderr: "<err>", ipc.Stdout: "</err>"}[s])
		}
	}
	for _, e := range r.events {
		if t, ok := e.(text); ok {
			turnTo(t.stream)
			b.WriteString(t.data)
			continue
		}
		turnTo(ipc.Stdout)
		switch e := e.(type) {
		case ipc.Image:
			fmt.Fprintf(&b, "[image %s]", e.MIME)
		case ipc.StdinWait:
			fmt.Fprintf(&b, "[wait %s %s %q]", e.Kind, e.Want, e.Prompt)
		case ipc.InputLine:
			fmt.Fprintf(&b, "[line %q]", e.Text)
		}
	}
	return b.String()
}

// wants fails the test unless the turn ended well and printed want.
func (r result) wants(t *testing.T, want string) {
	t.Helper()
	if got := r.out(); got != want || r.idle == nil || r.idle.Outcome != ipc.OutcomeOK {
		t.Fatalf("got %q, idle %+v; want %q and ok", r.script(), r.idle, want)
	}
}

// interrupt sends the frame and then the signal, as the supervisor does.
func (w *worker) interrupt(seq uint64, level uint8) {
	w.t.Helper()
	w.tell(ipc.Interrupt{Turn: w.turn, Seq: seq, Level: level})
	syscall.Kill(-w.cmd.Process.Pid, syscall.SIGINT)
}

// await returns once the turn has printed s.
func (w *worker) await(s string) {
	w.t.Helper()
	var seen string
	for !strings.Contains(seen, s) {
		if t, ok := w.next().(text); ok {
			seen += t.data
		}
	}
}

func pythonSpec(t testing.TB) workers.Spec {
	t.Helper()
	spec := python.Spec(python.Options{CacheDir: "-"})
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	return spec
}
