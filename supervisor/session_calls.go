package supervisor

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Info implements session.Session. Its error is always nil.
func (s *Session) Info(context.Context) (session.Info, error) {
	s.mu.Lock()
	i := session.Info{
		Name:             s.Name(),
		State:            s.m.phase.state(),
		StateSince:       s.m.stateSince,
		Generation:       s.m.generation,
		Turn:             s.m.lastTurn,
		Prompt:           s.m.prompt,
		OpenedAt:         s.openedAt,
		Executable:       s.spec.Path,
		ExecutableSource: s.spec.PathSource,
		Notice:           s.spec.Notice,
		Dir:              s.spec.Dir,
		Limits:           s.spec.Limits.String(),
		LastSeq:          s.log.LastSeq(),
		QueuedInputs:     len(s.queue),

		Continuation: s.m.continuationPrompt,
	}
	if s.preparationError != nil {
		i.PreparationError = s.preparationError.Error()
	}
	if s.spec.Sandbox.Confines() {
		i.Sandbox = s.spec.Sandbox.String()
		i.Grants = slices.Clone(s.m.grants)
	}
	if s.crashedBefore != nil {
		i.CrashedTranscript = s.crashedBefore.OutputPath
	}
	if s.m.turn != nil {
		i.Turn, i.TurnElapsed = s.m.turn.id, time.Since(s.m.turn.started)
	}
	if s.m.phase == phaseWaiting {
		w := s.m.shownRequest.InputRequest
		i.InputRequest = &w
	}
	i.Listener = s.m.currentListener()
	if s.m.ready != nil {
		i.Language, i.RuntimeVersion = s.m.ready.Worker.Language, s.m.ready.Worker.RuntimeVersion
	}
	w := s.worker
	if w != nil {
		i.AcceptedMechanism = string(w.mechanism)
	}
	s.mu.Unlock()
	i.OutputPath = s.log.OutputPath()
	if w != nil {
		i.PID = w.proc.pid
		i.MemoryBytes = w.proc.MemoryBytes()
	}
	return i, nil
}

// Events implements session.Session.
func (s *Session) Events(ctx context.Context, after timeline.Seq) iter.Seq2[timeline.Event, error] {
	return func(yield func(timeline.Event, error) bool) {
		defer s.beginUse()()
		for e := range s.log.Follow(ctx, after) {
			if !yield(e, nil) {
				return
			}
		}
		err := ctx.Err()
		if err == nil {
			s.mu.Lock()
			err = s.m.closedError()
			s.mu.Unlock()
		}
		yield(timeline.Event{}, err)
	}
}

// Submit implements session.Session. The error may be session.ErrStart.
func (s *Session) Submit(ctx context.Context, code string) (uint64, error) {
	return s.logCall("submit", "")(s.submitAs(ctx, code, turn{}, nil))
}

// SubmitSilent implements session.Session.
func (s *Session) SubmitSilent(ctx context.Context, code string) (uint64, error) {
	return s.logCall("submit", "")(s.submitAs(ctx, code, turn{turnMode: turnMode{silent: true}}, nil))
}

// SubmitMayExit implements session.Session.
func (s *Session) SubmitMayExit(ctx context.Context, code string) (uint64, error) {
	return s.logCall("submit", "")(s.submitAs(ctx, code, turn{turnMode: turnMode{mayExit: true}}, nil))
}

// submitAs starts a turn with the author and the mode of like. place is that of the input in the
// queue, or nil.
func (s *Session) submitAs(ctx context.Context, code string, like turn, place *QueuePlace) (uint64, error) {
	defer s.beginUse()()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(code) > MaxInputBytes {
		return 0, session.NewTooLargeError(len(code))
	}
	if err := like.dialect.Check(); err != nil {
		return 0, err
	}
	t := &turn{input: []byte(code), author: like.author, turnMode: like.turnMode, traceParent: session.TraceParent(ctx), lastLine: lastCodeLine(code)}
	known := s.terminalReaders()
	s.reportMissingDir()
	s.mu.Lock()
	var number uint64
	err := s.refusalLocked(place)
	if err == nil {
		number, err = s.m.submitTurn(t, known)
	}
	if err == nil && place != nil {
		s.leaveQueueLocked(place)
	}
	if err == nil && s.m.phase == phaseEnded {
		s.startLocked()
	}
	attempt := s.currentStart
	s.unlock()
	if err == nil && attempt != nil {
		err = s.waitForStart(ctx, t, attempt)
	}
	if err != nil {
		return 0, err
	}
	return number, nil
}

// waitForStart waits for the end of the start for which an input is queued. It returns early if the
// input is dropped, because that ends its turn.
func (s *Session) waitForStart(ctx context.Context, t *turn, attempt *startAttempt) error {
	for {
		s.mu.Lock()
		interrupted := t.outcome == timeline.OutcomeInterrupted
		changed := s.changedLocked()
		s.mu.Unlock()
		if interrupted {
			return nil
		}
		select {
		case <-attempt.done:
			return attempt.err
		case <-changed:
		case <-ctx.Done():
			s.mu.Lock()
			defer s.unlock()
			if s.m.withdrawTurn(t) {
				return ctx.Err()
			}
			return nil
		}
	}
}

// Answer implements session.Session.
func (s *Session) Answer(ctx context.Context, request timeline.Seq, in session.Input) (uint64, error) {
	return s.logCall("answer", "")(s.answerAs(ctx, "", request, in))
}

func (s *Session) answerAs(ctx context.Context, author string, request timeline.Seq, in session.Input) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	defer s.beginUse()()
	s.confirmListener()
	s.mu.Lock()
	defer s.unlock()
	return s.m.answerRequest(author, request, in)
}

// Interrupt implements session.Session. While the session starts, it drops a queued input, which
// then never runs. Turn 0 also interrupts the start-up itself.
func (s *Session) Interrupt(ctx context.Context, turn uint64) (session.InterruptResult, error) {
	return s.logInterrupt(turn, "")(s.interruptAs(ctx, "", turn))
}

func (s *Session) interruptAs(ctx context.Context, author string, turn uint64) (session.InterruptResult, error) {
	s.mu.Lock()
	t, seen, known, err := s.m.interruptTurn(author, turn)
	s.unlock()
	if t == nil {
		return known, err
	}
	return s.waitForInterrupt(ctx, t, seen)
}

// waitForInterrupt waits until an interrupt has taken effect, or times out.
func (s *Session) waitForInterrupt(ctx context.Context, t *turn, seen timeline.Seq) (session.InterruptResult, error) {
	timeout := time.NewTimer(interruptTimeout)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		over, asks := t.outcome != "", s.m.phase == phaseWaiting && s.m.shownRequest.ID > seen
		changed := s.changedLocked()
		s.mu.Unlock()
		switch {
		case over:
			return session.InterruptIdle, nil
		case asks:
			return session.InterruptWaiting, nil
		}
		select {
		case <-changed:
		case <-timeout.C:
			return session.InterruptPending, nil
		case <-ctx.Done():
			return session.InterruptPending, ctx.Err()
		}
	}
}

// reportMissingDir records once that the session's directory is gone. Clean-up tools may remove it.
func (s *Session) reportMissingDir() {
	if _, err := os.Lstat(filepath.Join(s.dir, lockFileName)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reportedMissingDir && !s.m.isClosed() {
		s.reportedMissingDir = true
		s.m.recordNotice("the session directory %s was removed: its files are lost, such as older output, but the session continues", s.dir)
	}
}

// Resize implements session.Session.
func (s *Session) Resize(_ context.Context, size session.Size) error {
	s.mu.Lock()
	s.o.Size = size
	w := s.worker
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	w.display.resize(pty.TerminalSize(size))
	return w.proc.terminal.Resize(pty.TerminalSize(size))
}

// Reset implements session.Session.
func (s *Session) Reset(ctx context.Context) error {
	defer s.beginUse()()
	if err := s.acquireLifecycle(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	if s.m.isClosed() {
		err := s.m.closedError()
		s.mu.Unlock()
		s.releaseLifecycle()
		return err
	}
	s.refuseQueueLocked(session.ErrReset)
	s.abandonStartLocked("reset", nil)
	started := make(chan *startAttempt, 1)
	s.starts.Go(func() {
		s.stopWorker(phaseStopping)
		s.mu.Lock()
		defer s.unlock()
		s.releaseLifecycle()
		attempt := s.currentStart // an input that came first has started it
		if attempt == nil {
			attempt = s.startLocked()
		}
		started <- attempt
	})
	s.unlock()
	select {
	case attempt := <-started:
		return attempt.wait(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// IsClosed reports whether the session is closed or closing. It does no I/O.
func (s *Session) IsClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.isClosed()
}

// StoppedBy names the step of the shutdown escalation that ended the last worker: "shutdown",
// "channel", "SIGHUP", "SIGTERM" or "SIGKILL". It is empty if the worker ended on its own.
func (s *Session) StoppedBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.stopStep
}

// lastCodeLine returns the last line of code that is not blank, limited to maxPromptBytes.
func lastCodeLine(code string) string {
	code = strings.TrimRight(code[max(0, len(code)-4*maxPromptBytes):], " \t\r\n")
	line := strings.TrimSpace(code[strings.LastIndexByte(code, '\n')+1:])
	return text.Truncate(line, maxPromptBytes)
}
