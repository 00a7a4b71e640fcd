//go:build linux || darwin

package rawworker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/workers"
)

// Nonce is the nonce of every worker's sync markers.
const Nonce = "0123456789abcdef"

// Timeout bounds each wait for the worker before a test fails.
const Timeout = 60 * time.Second

// MergedText is text from the terminal or from an output frame.
type MergedText struct {
	Stream ipc.Stream
	Data   string
	Kind   ipc.TextKind
}

// WorkerEnded says that the worker's channel and its terminal are at their end.
type WorkerEnded struct{}

// A RawWorker is a real worker on a terminal. Its methods are for the test's goroutine. They fail the
// test if the worker breaks the protocol, or is silent for longer than Timeout.
type RawWorker struct {
	Cmd      *exec.Cmd
	Terminal *os.File // this end of it
	Channel  *os.File // where the worker reads
	Turn     uint64   // the last turn that StartTurn started

	// OnInputRequest handles an input request if it returns true.
	OnInputRequest func(ipc.StdinWait) bool

	t    testing.TB
	raw  chan any // []byte of the terminal, ipc.Message, error, WorkerEnded
	stop chan struct{}

	endCount     int    // of the ends of channel and terminal so far
	tail         []byte // terminal bytes not merged yet
	stream       ipc.Stream
	kind         ipc.TextKind
	placedFrames map[uint64]ipc.Message // placed frames whose marker has not arrived
	merged       []any                  // MergedText, ipc.Message and WorkerEnded, in order
}

// A WorkerOptions configures the start of a worker beyond its Spec.
type WorkerOptions struct {
	Base    []string // the environment before the Spec's changes; nil means os.Environ
	Env     []string // applied after the Spec's changes, in the same way
	Dir     string   // "" means the Spec's
	NoTurn0 bool     // return before idle(0)
}

// StartWorker starts a worker and waits for its first idle.
func StartWorker(t testing.TB, spec workers.Spec, s WorkerOptions) *RawWorker {
	t.Helper()
	cmd, master, toWorker, fromWorker := SpawnProcess(t, spec, s)
	w := &RawWorker{
		t: t, Cmd: cmd, Terminal: master, Channel: toWorker,
		raw: make(chan any, 64), stop: make(chan struct{}),
		stream: ipc.Stdout, placedFrames: map[uint64]ipc.Message{},
	}
	go w.readTerminal()
	go w.readChannel(fromWorker)
	t.Cleanup(func() {
		close(w.stop)
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		w.Channel.Close()
		master.Close()
		fromWorker.Close()
	})
	if !s.NoTurn0 {
		w.TakeReady()
		w.FinishTurn()
	}
	return w
}

// SpawnProcess starts a worker on a new terminal. It returns this side's ends of the channel and
// the terminal, which the caller closes.
func SpawnProcess(t testing.TB, spec workers.Spec, s WorkerOptions) (cmd *exec.Cmd, master, toWorker, fromWorker *os.File) {
	t.Helper()
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	spec, err := spec.RunPreparations(t.Context(), func(p workers.PreparationProgress) { t.Log(p.Message) })
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.MkdirTemp("", "worker-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(files) }) // no error: a child of a killed worker may still write there
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
	workerIn, toWorker, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromWorker, workerOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer workerIn.Close()
	defer workerOut.Close()

	args := make([]string, len(spec.Args))
	for i, a := range spec.Args {
		args[i] = strings.ReplaceAll(a, workers.FilesDir, files)
	}
	cmd = exec.Command(spec.Path, args...)
	if cmd.Dir = s.Dir; cmd.Dir == "" {
		cmd.Dir = spec.Dir
	}
	base := s.Base
	if base == nil {
		base = os.Environ()
	}
	changes := slices.Concat([]string{"TERM=dumb", "PAGER=cat"}, spec.Env, spec.PlainEnv, s.Env, []string{"REPL_IPC=3,4," + Nonce})
	for i, change := range changes {
		changes[i] = strings.ReplaceAll(change, workers.FilesDir, files)
	}
	cmd.Env = environ.Apply(base, changes)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.ExtraFiles = []*os.File{workerIn, workerOut}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, master, toWorker, fromWorker
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
	mode.Lflag |= unix.EXTPROC | unix.ECHO // as a supervisor sets it
	if err := unix.IoctlSetTermios(fd, setTermios, mode); err != nil {
		t.Fatal(err)
	}
}

// TakeReady receives worker_ready, the first frame. Text of the start-up may overtake it on its
// separate stream.
func (w *RawWorker) TakeReady() ipc.WorkerReady {
	w.t.Helper()
	var before []any
	for {
		switch e := w.NextEvent().(type) {
		case ipc.WorkerReady:
			w.merged = append(before, w.merged...)
			return e
		case MergedText:
			before = append(before, e)
		default:
			w.t.Fatalf("got %+v after %v, want worker_ready", e, before)
		}
	}
}

func (w *RawWorker) deliver(v any) bool {
	select {
	case w.raw <- v:
		return true
	case <-w.stop:
		return false
	}
}

func (w *RawWorker) readTerminal() {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.Terminal.Read(buf)
		if n > 0 && !w.deliver(append([]byte(nil), buf[:n]...)) {
			return
		}
		if err != nil {
			w.deliver(WorkerEnded{})
			return
		}
	}
}

func (w *RawWorker) readChannel(r io.Reader) {
	for {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			w.deliver(WorkerEnded{})
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(r, payload); err != nil {
			w.deliver(fmt.Errorf("a truncated frame: %w", err))
			return
		}
		m, err := ipc.Decode(payload, ipc.FromWorker)
		if err != nil {
			w.deliver(fmt.Errorf("%w: %q", err, payload))
			return
		}
		if !w.deliver(m) {
			return
		}
	}
}

// NextEvent returns the next event in the true order: a MergedText, a message, or WorkerEnded.
func (w *RawWorker) NextEvent() any {
	w.t.Helper()
	e, ok := w.NextEventWithin(Timeout)
	if !ok {
		w.t.Fatalf("no event within %v; unmerged %q, placed frames %v", Timeout, w.tail, w.placedFrames)
	}
	return e
}

// NextEventWithin is NextEvent with a limit d instead of Timeout.
func (w *RawWorker) NextEventWithin(d time.Duration) (any, bool) {
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
			w.addRaw(v)
		case <-deadline:
			return nil, false
		}
	}
	e := w.merged[0]
	w.merged = w.merged[1:]
	return e, true
}

func (w *RawWorker) addRaw(v any) {
	w.t.Helper()
	switch v := v.(type) {
	case error:
		w.t.Fatal(v)
	case []byte:
		w.tail = append(w.tail, v...)
	case ipc.Message:
		if m := ipc.MarkOf(v); m != 0 {
			w.placedFrames[m] = v
		} else {
			w.merged = append(w.merged, v)
		}
	case WorkerEnded:
		if w.endCount++; w.endCount == 2 {
			defer func() { w.merged = append(w.merged, v) }()
		}
	}
	w.mergeStreams()
}

// mergeStreams moves terminal bytes to merged, up to a marker whose frame has not arrived.
func (w *RawWorker) mergeStreams() {
	prefix := []byte("\x1b_" + Nonce + ";")
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
			w.addText(w.tail[:len(w.tail)-keep])
			w.tail = w.tail[len(w.tail)-keep:]
			return
		}
		end := bytes.Index(w.tail[i:], []byte("\x1b\\"))
		if end < 0 {
			return
		}
		w.addText(w.tail[:i])
		body := string(w.tail[i+len(prefix) : i+end])
		w.tail = w.tail[i:]
		switch {
		case body == "E":
			w.stream, w.kind = ipc.Stderr, ""
		case body == "O":
			w.stream, w.kind = ipc.Stdout, ""
		case body == "B", body == "R":
			w.stream, w.kind = ipc.Stdout, ipc.TextResult
		case body == "T":
			w.stream, w.kind = ipc.Stderr, ipc.TextTraceback
		default:
			n, err := strconv.ParseUint(strings.TrimPrefix(body, "#"), 10, 64)
			if err != nil {
				w.t.Fatalf("marker %q", body)
			}
			m, ok := w.placedFrames[n]
			if !ok {
				return
			}
			delete(w.placedFrames, n)
			if o, ok := m.(ipc.Output); ok {
				w.merged = append(w.merged, MergedText{o.Stream, string(o.Data), o.Kind})
			} else {
				w.merged = append(w.merged, m)
			}
		}
		w.tail = w.tail[end+2:]
	}
}

func (w *RawWorker) addText(data []byte) {
	if len(data) > 0 {
		w.merged = append(w.merged, MergedText{w.stream, string(data), w.kind})
	}
}

// SendMessage sends a message.
func (w *RawWorker) SendMessage(m ipc.Message) {
	w.t.Helper()
	frame, err := ipc.AppendFrame(nil, m)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.Channel.Write(frame); err != nil {
		var r RawResult // the worker's last output
		for e, ok := w.NextEventWithin(Timeout); ok; e, ok = w.NextEventWithin(Timeout) {
			r.Events = append(r.Events, e)
			if _, over := e.(WorkerEnded); over {
				w.t.Fatalf("%v: the worker exited with %x after %.2000s", err, w.ExitStatus(), r.Transcript())
			}
		}
		w.t.Fatalf("%v: the worker does not exit after %.2000s", err, r.Transcript())
	}
}

// StartTurn starts a turn.
func (w *RawWorker) StartTurn(code string) {
	w.t.Helper()
	w.Turn++
	w.SendMessage(ipc.TurnStart{Turn: w.Turn, Input: []byte(code)})
}

// RunCode runs one turn and answers its input requests, a line each; "" is the end of the file.
func (w *RawWorker) RunCode(code string, answers ...string) RawResult {
	w.t.Helper()
	w.StartTurn(code)
	return w.FinishTurn(answers...)
}

// FinishTurn collects events up to the turn's idle, or the worker's exit.
func (w *RawWorker) FinishTurn(answers ...string) RawResult {
	w.t.Helper()
	var r RawResult
	for {
		e := w.NextEvent()
		r.Events = append(r.Events, e)
		switch e := e.(type) {
		case ipc.StdinWait:
			if w.OnInputRequest != nil && w.OnInputRequest(e) {
				continue
			}
			if len(answers) == 0 {
				w.t.Fatalf("unexpected input request %+v after %s", e, r.Transcript())
			}
			w.AnswerRequest(e, answers[0])
			answers = answers[1:]
		case ipc.Idle:
			if e.Turn != w.Turn {
				w.t.Fatalf("idle of turn %d, want %d", e.Turn, w.Turn)
			}
			r.Idle = &e
			return r
		case ipc.SessionEnd:
			r.End = &e
		case WorkerEnded:
			return r
		}
	}
}

// InterruptUntilAcked interrupts like the supervisor: again after 30, 60, 120 ms until the worker
// acknowledges, because a runtime may miss a signal on its way into a system call. It returns the
// events until done recognises the effect, or the turn is over. It calls signal after each frame,
// with true for a retry; nil sends no signal.
func (w *RawWorker) InterruptUntilAcked(seq uint64, level uint8, signal func(retry bool), done func(any) bool) RawResult {
	w.t.Helper()
	ask := func(retry bool) {
		w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: seq, Level: level})
		if signal != nil {
			signal(retry)
		}
	}
	ask(false)
	var r RawResult
	acked := false
	start := time.Now()
	for pause := 30 * time.Millisecond; time.Since(start) < Timeout; pause = min(2*pause, time.Second) {
		for e, ok := w.NextEventWithin(pause); ok; e, ok = w.NextEventWithin(pause) {
			r.Events = append(r.Events, e)
			if done != nil && done(e) {
				return r
			}
			switch e := e.(type) {
			case ipc.Idle:
				r.Idle = &e
				return r
			case ipc.SessionEnd:
				r.End = &e
			case WorkerEnded:
				return r
			case ipc.InterruptAck:
				acked = acked || e.Turn == w.Turn && e.Seq == seq
			}
		}
		if !acked {
			ask(true)
		}
	}
	w.t.Fatalf("turn %d was not interrupted after %v (acknowledged: %v): %.1000q", w.Turn, time.Since(start), acked, r.Transcript())
	return r
}

// WaitInputRequest returns the turn's next input request.
func (w *RawWorker) WaitInputRequest() ipc.StdinWait {
	w.t.Helper()
	for {
		switch e := w.NextEvent().(type) {
		case ipc.StdinWait:
			return e
		case ipc.Idle, WorkerEnded:
			w.t.Fatalf("got %+v, want an input request", e)
		}
	}
}

// AnswerRequest answers an input request with a line, or with "" for the end of the file.
func (w *RawWorker) AnswerRequest(request ipc.StdinWait, answer string) {
	w.t.Helper()
	in := ipc.TurnInput{Turn: request.Turn, Wait: request.Wait, Input: []byte(answer), EOF: answer == ""}
	if answer != "" && !strings.HasSuffix(answer, "\n") {
		in.Input = append(in.Input, '\n')
	}
	w.SendMessage(in)
}

// WaitOutput waits until the turn has printed s.
func (w *RawWorker) WaitOutput(s string) {
	w.t.Helper()
	var seen string
	for !strings.Contains(seen, s) {
		switch e := w.NextEvent().(type) {
		case MergedText:
			seen += e.Data
		case ipc.Idle, WorkerEnded:
			w.t.Fatalf("got %+v before %q: %.2000q", e, s, seen)
		}
	}
}

// ExitStatus waits for the worker's process to exit.
func (w *RawWorker) ExitStatus() syscall.WaitStatus {
	w.t.Helper()
	w.Cmd.Wait()
	return w.Cmd.ProcessState.Sys().(syscall.WaitStatus)
}
