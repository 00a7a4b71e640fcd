package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/ipc"
)

// allChecks lists all checks, beginning with those on which others depend.
func allChecks() []check {
	return []check{
		{"the first frame is worker_ready with this protocol", readyComesFirst},
		{"idle of turn 0 follows", becomesIdle},
		{"a turn ends with its own idle", turnEndsWithItsIdle},
		{"output of a turn comes before its idle", outputComesBeforeIdle},
		{"output of the runtime and of children keeps its order", outputKeepsItsOrder},
		{"an error of the language ends the turn, not the worker", errorEndsTheTurn},
		{"a turn with unknown fields runs", unknownFieldsAreIgnored},
		{"a read of standard input asks, and gets the answer", readAsks},
		{"an answer to another input request is dropped", staleAnswerIsDropped},
		{"end of file ends only one input request", endOfFileIsNotSticky},
		{"an interrupt ends a sleep", interruptEndsSleep},
		{"an interrupt ends a loop", interruptEndsLoop},
		{"an interrupt ends an input request, and the next input is code", interruptEndsWait},
		{"a repeated interrupt counts once", repeatedInterruptCountsOnce},
		{"an interrupt of a finished turn is stale", staleInterruptDoesNothing},
		{"a query for completions is answered", queryCompletes},
		{"a query whether an input is complete is answered", queryParses},
		{"a query for variables is answered", queryVariables},
		{"a call of a host function gets its result", callGetsItsResult},
		{"a call that fails is an error of the language", failedCallIsAnError},
		{"an invalid result is an error of the language", wrongResultIsAnError},
		{"an interrupt ends a call, and cancels it", interruptEndsCall},
		{"code opens a group of functions and calls one", groupIsOpenedAndCalled},
		{"a group that cannot be opened is an error of the language", groupThatFailsIsAnError},
		{"REPL_IPC is removed from the environment", channelIsNotInTheEnvironment},
		{"children do not inherit the channel", childrenDoNotInheritTheChannel},
		{"an exit where none is allowed is an error, or ends the worker", exitIsNoSuccess},
		{"an exit of the language ends the session with its status", exitEndsTheSession},
		{"shutdown ends an idle worker", shutdownWhileIdle},
		{"shutdown ends a worker that sleeps", shutdownWhileRunning},
		{"shutdown ends a worker that waits for input", shutdownWhileWaiting},
		{"a closed channel ends an idle worker", closeWhileIdle},
		{"a closed channel ends a worker that waits for input", closeWhileWaiting},
		{"a malformed frame ends the worker", malformedFrameEndsTheWorker},
	}
}

func readyComesFirst(s *workerSession) error {
	if err := s.startWorker(); err != nil {
		return err
	}
	m, err := s.nextFrame()
	if err != nil {
		return fmt.Errorf("waiting for the first frame: %w", err)
	}
	ready, ok := m.(ipc.WorkerReady)
	if !ok {
		return fmt.Errorf("the first frame is %s, want worker_ready", describeMessage(m))
	}
	if p := ready.Protocol; p.Name != ipc.ProtocolName || p.Version != ipc.ProtocolVersion {
		return fmt.Errorf("the protocol is %s %d, want %s %d", p.Name, p.Version, ipc.ProtocolName, ipc.ProtocolVersion)
	}
	if ready.Worker.Name == "" {
		return errors.New("the worker has no name")
	}
	return nil
}

func becomesIdle(s *workerSession) error { return s.ensureIdle() }

func turnEndsWithItsIdle(s *workerSession) error {
	if err := s.ensureIdle(); err != nil {
		return err
	}
	for range 3 {
		if _, err := s.runTurn(""); err != nil {
			return err
		}
	}
	s.turn += 5 // numbers increase, but need not be consecutive
	_, err := s.runTurn("")
	return err
}

func outputComesBeforeIdle(s *workerSession) error {
	if s.Print == nil {
		return skipError("the dialect has no code that prints")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	for range 5 {
		r, err := s.runTurn(s.Print("hello"))
		if err != nil {
			return err
		}
		if r.text != "hello\n" {
			return fmt.Errorf("the turn printed %q, want %q", r.text, "hello\n")
		}
	}
	return nil
}

func outputKeepsItsOrder(s *workerSession) error {
	if s.Print == nil || s.Shell == nil {
		return skipError("the dialect has no code that prints and runs a child")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if !s.ready.Capabilities.Fence {
		return skipError("the worker does not offer sync markers")
	}
	large := strings.Repeat("x", 20<<10) // a worker may send this much in frames
	for range 5 {
		r, err := s.runTurn(s.Print("one"), s.Shell("echo two"), s.Print(large), s.Shell("echo four"), s.Print("five"))
		if err != nil {
			return err
		}
		if want := "one\ntwo\n" + large + "\nfour\nfive\n"; r.text != want {
			return fmt.Errorf("the turn printed %.200q (%d bytes), want one, two, 20 KiB of x, four, five", r.text, len(r.text))
		}
	}
	return nil
}

func errorEndsTheTurn(s *workerSession) error {
	if s.Error == "" || s.Print == nil {
		return skipError("the dialect has no code with an error")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if err := s.startTurn(s.Error); err != nil {
		return err
	}
	r, err := s.collectTurn(s.turn)
	if err != nil {
		return err
	}
	if r.idle.Outcome != ipc.OutcomeError || r.idle.Error == nil || r.idle.Error.Name == "" {
		return fmt.Errorf("got %s, want the outcome error with the name of the error", describeMessage(r.idle))
	}
	return s.checkAlive()
}

// checkAlive checks that the worker still works.
func (s *workerSession) checkAlive() error {
	r, err := s.runTurn(s.Print("hello"))
	if err == nil && r.text != "hello\n" {
		err = fmt.Errorf("the next turn printed %q, want %q", r.text, "hello\n")
	}
	return err
}

func unknownFieldsAreIgnored(s *workerSession) error {
	if err := s.ensureIdle(); err != nil {
		return err
	}
	s.turn++
	b, err := ipc.AppendFrame(nil, ipc.TurnStart{Turn: s.turn, Input: []byte("\n")})
	if err != nil {
		return err
	}
	b[4] += 2                                                    // two more fields in the map
	b = append(b, "\xa6grease\x93\x01\xc0\x81\xa1k\xc4\x01v"...) // [1, nil, {"k": bin}]
	b = append(b, "\xa7grease2\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := s.toWorker.Write(b); err != nil {
		return err
	}
	_, err = s.collectTurn(s.turn)
	return err
}

// ensureIdleForInput is ensureIdle for a check that asks for input.
func (s *workerSession) ensureIdleForInput() error {
	if s.Ask == nil || s.Print == nil {
		return skipError("the dialect has no code that asks for input")
	}
	return s.ensureIdle()
}

// startInputTurn starts a turn that asks for input.
func (s *workerSession) startInputTurn() (ipc.StdinWait, []ipc.Message, error) {
	if err := s.startTurn(s.Ask("name? ")); err != nil {
		return ipc.StdinWait{}, nil, err
	}
	return s.waitForInput()
}

// answerInput answers an input request and expects the turn to print the answer.
func (s *workerSession) answerInput(w ipc.StdinWait, seen []ipc.Message, line string) error {
	if err := s.conn.Send(ipc.TurnInput{Turn: w.Turn, Wait: w.Wait, Input: []byte(line + "\n")}); err != nil {
		return err
	}
	r, err := s.collectTurn(w.Turn, seen...)
	if err != nil {
		return err
	}
	if !strings.Contains(r.text, line) {
		return fmt.Errorf("the turn printed %q, want the answer %q in it", r.text, line)
	}
	handed := slices.ContainsFunc(r.frames, func(m ipc.Message) bool {
		l, ok := m.(ipc.InputLine)
		return ok && l.Turn == w.Turn && strings.TrimSuffix(l.Text, "\n") == line && !l.Secret
	})
	if !handed {
		return errors.New("got no input_line for the answer")
	}
	return nil
}

func readAsks(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	var last uint64
	for _, name := range []string{"Ada", "Grace"} {
		w, seen, err := s.startInputTurn()
		if err != nil {
			return err
		}
		if w.Prompt != "name? " || w.Kind != ipc.WaitLine || w.Wait <= last {
			return fmt.Errorf("got %s after wait %d, want a request for a line with a new wait number", describeMessage(w), last)
		}
		last = w.Wait
		if err := s.answerInput(w, seen, name); err != nil {
			return err
		}
	}
	return nil
}

func staleAnswerIsDropped(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	w, seen, err := s.startInputTurn()
	if err != nil {
		return err
	}
	for _, stale := range []ipc.TurnInput{
		{Turn: w.Turn, Wait: w.Wait + 7, Input: []byte("wrong\n")},
		{Turn: w.Turn + 7, Wait: w.Wait, Input: []byte("wrong\n")},
		{Turn: 0, Wait: w.Wait, EOF: true},
	} {
		if err := s.conn.Send(stale); err != nil {
			return err
		}
	}
	if err := s.answerInput(w, seen, "right"); err != nil {
		return err
	}
	if err := s.conn.Send(ipc.TurnInput{Turn: w.Turn, Wait: w.Wait, Input: []byte("too late\n")}); err != nil {
		return err
	}
	if w, seen, err = s.startInputTurn(); err != nil {
		return err
	}
	return s.answerInput(w, seen, "again")
}

func endOfFileIsNotSticky(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	w, seen, err := s.startInputTurn()
	if err != nil {
		return err
	}
	if err := s.conn.Send(ipc.TurnInput{Turn: w.Turn, Wait: w.Wait, EOF: true}); err != nil {
		return err
	}
	if _, err := s.collectTurn(w.Turn, seen...); err != nil { // however the language handles it
		return err
	}
	if w, seen, err = s.startInputTurn(); err != nil {
		return err
	}
	return s.answerInput(w, seen, "more")
}

func interruptEndsSleep(s *workerSession) error { return s.checkInterruptEnds(s.Sleep, 1) }

func interruptEndsLoop(s *workerSession) error { return s.checkInterruptEnds(s.Loop, 1) }

func repeatedInterruptCountsOnce(s *workerSession) error { return s.checkInterruptEnds(s.Sleep, 3) }

// checkInterruptEnds interrupts code, first as soon as it may have started, then when it has
// certainly started.
func (s *workerSession) checkInterruptEnds(code string, times int) error {
	if code == "" || s.Print == nil {
		return skipError("the dialect has no such code")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	for i := range 6 {
		if err := s.startTurn(s.Print("started"), code); err != nil {
			return err
		}
		var seen []ipc.Message
		if i%2 == 1 {
			var err error
			if seen, err = s.waitForOutput("started"); err != nil {
				return err
			}
		}
		if _, err := s.interruptTurn(s.turn, times, seen...); err != nil {
			return err
		}
		if err := s.checkAlive(); err != nil {
			return err
		}
	}
	return nil
}

func interruptEndsWait(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	for range 3 {
		w, seen, err := s.startInputTurn()
		if err != nil {
			return err
		}
		if _, err := s.interruptTurn(s.turn, 1, seen...); err != nil {
			return err
		}
		if err := s.conn.Send(ipc.TurnInput{Turn: w.Turn, Wait: w.Wait, Input: []byte("too late\n")}); err != nil {
			return err
		}
		if err := s.checkAlive(); err != nil {
			return err
		}
	}
	return nil
}

func staleInterruptDoesNothing(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	if err := s.checkAlive(); err != nil {
		return err
	}
	finished := s.turn
	w, seen, err := s.startInputTurn()
	if err != nil {
		return err
	}
	if err := s.sendInterrupt(finished, 1, true); err != nil {
		return err
	}
	for acked := false; !acked; {
		m, err := s.nextFrame()
		if err != nil {
			return fmt.Errorf("waiting for interrupt_ack: %w", err)
		}
		seen = append(seen, m)
		switch m := m.(type) {
		case ipc.InterruptAck:
			if m.Turn != finished || m.Result != ipc.InterruptStale {
				return fmt.Errorf("got %s, want stale", describeMessage(m))
			}
			acked = true
		case ipc.Idle, ipc.SessionEnd, ipc.StdinWait:
			return fmt.Errorf("after an interrupt of turn %d, turn %d sent %s", finished, w.Turn, describeMessage(m))
		}
	}
	return s.answerInput(w, seen, "still here")
}

func queryCompletes(s *workerSession) error {
	if s.Word == "" {
		return skipError("the dialect has no name to complete")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if !s.ready.Capabilities.Query {
		return skipError("the worker does not offer queries")
	}
	if err := s.conn.Send(ipc.Query{ID: 41, Kind: ipc.QueryComplete, Text: s.Word, Cursor: uint64(len(s.Word))}); err != nil {
		return err
	}
	got, err := expectFrame[ipc.QueryResult](s)
	if err != nil {
		return err
	}
	if got.ID != 41 || got.Status != ipc.StatusOK || got.Start > uint64(len(s.Word)) {
		return fmt.Errorf("got %s, want the answer to query 41", describeMessage(got))
	}
	for _, m := range got.Matches {
		if s.Word[:got.Start]+m == s.Match {
			return nil
		}
	}
	return fmt.Errorf("got %s for %q, want %q among the matches", describeMessage(got), s.Word, s.Match)
}

func queryParses(s *workerSession) error {
	if s.Whole == "" {
		return skipError("the dialect has no complete and incomplete inputs")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if !s.ready.Capabilities.Query {
		return skipError("the worker does not offer queries")
	}
	for i, c := range []struct {
		text string
		want ipc.QueryStatus
	}{
		{s.Whole, ipc.StatusComplete}, {s.Partial, ipc.StatusIncomplete}, {s.Broken, ipc.StatusInvalid},
	} {
		if c.text == "" {
			continue
		}
		id := uint64(i) + 1
		if err := s.conn.Send(ipc.Query{ID: id, Kind: ipc.QueryParse, Text: c.text}); err != nil {
			return err
		}
		got, err := expectFrame[ipc.QueryResult](s)
		if err != nil {
			return err
		}
		if got.ID != id || got.Status != c.want {
			return fmt.Errorf("got %s for %q, want %s", describeMessage(got), c.text, c.want)
		}
	}
	return nil
}

func queryVariables(s *workerSession) error {
	if s.Define == "" {
		return skipError("the dialect has no code that defines a variable")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if !s.ready.Capabilities.Variables {
		return skipError("the worker does not offer variables")
	}
	if r, err := s.runTurn(s.Define); err != nil {
		return err
	} else if r.idle.Outcome != ipc.OutcomeOK {
		return fmt.Errorf("got %s for %q", describeMessage(r.idle), s.Define)
	}
	if err := s.conn.Send(ipc.Query{ID: 43, Kind: ipc.QueryVariables}); err != nil {
		return err
	}
	got, err := expectFrame[ipc.QueryResult](s)
	if err != nil {
		return err
	}
	if got.ID != 43 || got.Status != ipc.StatusOK {
		return fmt.Errorf("got %s, want the answer to query 43", describeMessage(got))
	}
	for _, v := range got.Variables {
		if v.Name == s.Variable {
			return nil
		}
	}
	return fmt.Errorf("got %s, want %q among the variables", describeMessage(got), s.Variable)
}

func channelIsNotInTheEnvironment(s *workerSession) error {
	got, err := s.runShell(`echo "[${REPL_IPC-gone}]"`)
	if err == nil && got != "[gone]\n" {
		err = fmt.Errorf("a child sees REPL_IPC: %q", got)
	}
	return err
}

func childrenDoNotInheritTheChannel(s *workerSession) error {
	got, err := s.runShell(`for f in /dev/fd/*; do if [ -p "$f" ]; then ls -Li "$f"; fi; done; echo done`)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(got, "done\n") {
		return fmt.Errorf("a child printed %q, want done at the end", got)
	}
	for line := range strings.Lines(got) { // "4711 /dev/fd/5"; some pipes may be unrelated
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(number, 10, 64); err == nil && slices.Contains(s.pipes, n) {
			return fmt.Errorf("a child has the channel as %s", name)
		}
	}
	return nil
}

// runShell runs a shell command by means of the language, and returns its output.
func (s *workerSession) runShell(command string) (string, error) {
	if s.Shell == nil {
		return "", skipError("the dialect has no code that runs a shell")
	}
	if err := s.ensureIdle(); err != nil {
		return "", err
	}
	if !s.ready.Capabilities.Fence {
		return "", skipError("the worker does not offer sync markers, which show when a child's output is complete")
	}
	r, err := s.runTurn(s.Shell(command))
	return r.text, err
}

func exitIsNoSuccess(s *workerSession) error {
	if s.Exit == "" {
		return skipError("the dialect has no code that exits")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	s.turn++
	if err := s.conn.Send(ipc.TurnStart{Turn: s.turn, Input: []byte(s.Exit + "\n"), NoExit: true}); err != nil {
		return err
	}
	r, err := s.collectTurn(s.turn)
	over := errors.Is(err, io.EOF)
	if n := len(r.frames); err != nil && n > 0 {
		_, last := r.frames[n-1].(ipc.SessionEnd)
		over = over || last
	}
	if over {
		_, err = s.waitForExit()
	}
	if err == nil && r.idle.Outcome == ipc.OutcomeOK {
		err = fmt.Errorf("%q ended with %s, want an error or the end of the worker", s.Exit, describeMessage(r.idle))
	}
	return err
}

func exitEndsTheSession(s *workerSession) error {
	if s.Exit == "" {
		return skipError("the dialect has no code that exits")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if err := s.startTurn(s.Exit); err != nil {
		return err
	}
	last, err := s.waitForExit()
	if err != nil {
		return err
	}
	if last == nil || last.Reason != ipc.EndExit || last.Code == nil || *last.Code != 3 {
		return fmt.Errorf("the last frame was %+v, want session_end with reason exit and code 3", last)
	}
	if got := s.cmd.ProcessState.ExitCode(); got != 3 {
		return fmt.Errorf("the process ended with %v, want exit status 3", s.cmd.ProcessState)
	}
	return nil
}

// checkShutdown sends a shutdown and expects the worker to end.
func (s *workerSession) checkShutdown() error {
	if err := s.conn.Send(ipc.Shutdown{GraceMS: uint64(s.timeout.Milliseconds())}); err != nil {
		return err
	}
	last, err := s.waitForExit()
	if err != nil {
		return err
	}
	if last == nil || last.Reason != ipc.EndShutdown {
		return fmt.Errorf("the last frame was %+v, want session_end with reason shutdown", last)
	}
	return nil
}

func shutdownWhileIdle(s *workerSession) error {
	if err := s.ensureIdle(); err != nil {
		return err
	}
	return s.checkShutdown()
}

func shutdownWhileRunning(s *workerSession) error {
	if s.Sleep == "" {
		return skipError("the dialect has no code that sleeps")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if err := s.startTurn(s.Sleep); err != nil {
		return err
	}
	// A worker that reads frames only when it is signalled must get the supervisor's next step,
	// too: an interrupt.
	if err := s.conn.Send(ipc.Shutdown{GraceMS: uint64(s.timeout.Milliseconds())}); err != nil {
		return err
	}
	s.sendInterrupt(s.turn, 1, true) // an error means that the shutdown frame alone has ended the worker
	// Repeat it later than usual: a worker that is already shutting down may take it for a new
	// interrupt.
	defer s.repeatInterrupt(s.turn, maxRetryDelay)()
	last, err := s.waitForExit()
	if err == nil && (last == nil || last.Reason != ipc.EndShutdown) {
		err = fmt.Errorf("the last frame was %+v, want session_end with reason shutdown", last)
	}
	return err
}

func shutdownWhileWaiting(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	if _, _, err := s.startInputTurn(); err != nil {
		return err
	}
	return s.checkShutdown()
}

func closeWhileIdle(s *workerSession) error {
	if err := s.ensureIdle(); err != nil {
		return err
	}
	return s.checkHangUp()
}

func closeWhileWaiting(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	if _, _, err := s.startInputTurn(); err != nil {
		return err
	}
	return s.checkHangUp()
}

// checkHangUp closes the supervisor's writing end and expects the worker to exit.
func (s *workerSession) checkHangUp() error {
	if err := s.toWorker.Close(); err != nil {
		return err
	}
	_, err := s.waitForExit()
	return err
}

func malformedFrameEndsTheWorker(s *workerSession) error {
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if _, err := s.toWorker.Write([]byte("\x00\x00\x00\x07garbage")); err != nil {
		return err
	}
	last, err := s.waitForExit()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if last != nil && last.Reason != ipc.EndProtocolError {
		return fmt.Errorf("the last frame was %+v, want session_end with reason protocol_error or none", last)
	}
	return err
}
