package supervisor

import (
	"context"
	"fmt"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// stdinWait takes in that the runtime asks.
func (s *Session) stdinWaitLocked(m ipc.StdinWait) error {
	if s.turn == nil || m.Turn != s.turn.id {
		if m.Turn > s.lastTurn {
			return fmt.Errorf("stdin_wait names turn %d, which has not begun", m.Turn)
		}
		return nil // a thread of a turn that has just ended: it asks again in the next one
	}
	if s.turn.unacked {
		return nil // asked before the worker saw the interrupt, which ends it
	}
	s.asked = append(s.asked, ask{
		Wait: session.Wait{
			Turn:   s.turn.id,
			Prompt: s.log.Hidden(m.Prompt),
			Kind:   timeline.WaitKind(m.Kind),
			Secret: m.Kind == ipc.WaitSecret,
		},
		worker: m.Wait,
		all:    m.Want == ipc.WantAll,
	})
	if len(s.asked) > maxAsked {
		return fmt.Errorf("more than %d readers wait at once", maxAsked)
	}
	if s.held != nil {
		s.joinHeldLocked(m.Prompt)
	}
	s.serveLocked()
	return nil
}

// maxAsked bounds the readers of one turn that wait at the same time.
const maxAsked = 1024

// terminalWaitLocked takes in that a program reads the terminal.
func (s *Session) terminalWaitLocked(reader, command string, secret bool) {
	a := ask{
		Wait: session.Wait{
			Turn:     s.turn.id,
			Prompt:   s.log.Hidden(string(s.lastLine)),
			Kind:     timeline.WaitLine,
			Secret:   secret,
			Terminal: true,
			Reader:   command,
		},
		reader: reader,
	}
	if secret {
		a.Kind = timeline.WaitSecret
	}
	s.asked = append(s.asked, a)
	if s.held != nil {
		s.joinHeldLocked(a.Prompt)
	}
	s.serveLocked()
}

// joinHeldLocked lets an input that was submitted while starting answer the
// start-up, which asked first.
func (s *Session) joinHeldLocked(prompt string) {
	t := s.held
	s.held = nil
	t.id = 0 // its caller still knows it by the number that it was given
	s.turn.joined = t
	s.appendLocked(timeline.Notice{Message: fmt.Sprintf("the input answered a prompt of the start-up: %q", prompt)})
	s.queue.add(t.author, session.Input{Data: withNewline(t.input)})
	t.input = nil
}

// tellLinesLocked says which lines of the turn's own input went to prompts: none of
// them is code that has run. Lines with nothing between them are one sentence.
func (s *Session) tellLinesLocked() {
	if s.turn == nil || len(s.turn.took) == 0 {
		return
	}
	first, last := s.turn.took[0], s.turn.took[len(s.turn.took)-1]
	s.turn.took = nil
	lines := fmt.Sprintf("line %d", first.Line)
	if last.Line > first.Line {
		lines = fmt.Sprintf("lines %d to %d", first.Line, last.Line)
	}
	s.appendLocked(timeline.Notice{Message: fmt.Sprintf("%s of the input answered %q", lines, first.Prompt)})
}

// serveLocked gives queued input to whoever asks, the runtime first, and shows
// the first wait that is left.
func (s *Session) serveLocked() {
	for s.shown == nil && len(s.asked) > 0 {
		i := 0
		for i < len(s.asked)-1 && s.asked[i].Terminal {
			i++ // the runtime's own waits come first
		}
		if s.asked[i].Terminal {
			i = 0
		}
		a := s.asked[i]
		if s.queue.empty() {
			e := s.appendLocked(timeline.Wait{Prompt: a.Prompt, Kind: a.Kind, Terminal: a.Terminal, Reader: a.Reader})
			s.asked[i].ID, a.ID = e.Seq, e.Seq
			s.shown = &a
			s.moveLocked(session.StateWaiting)
			return
		}
		s.asked = append(s.asked[:i:i], s.asked[i+1:]...)
		s.giveLocked(a)
	}
	if len(s.asked) == 0 {
		s.worker.watchTerminal()
	}
}

// giveLocked hands the next piece of queued input to one reader.
func (s *Session) giveLocked(a ask) {
	w, author := s.worker, s.queue.author
	if s.turn != nil {
		s.turn.escalate = false // what an interrupt left waiting goes on
	}
	data, eof := s.queue.next(a.all)
	if a.Secret && !s.o.ShowSecrets { // with what was typed behind it, which the next reader may get
		s.hideLocked(string(data) + string(s.queue.data))
	}
	if !a.Terminal {
		if err := w.conn.Send(ipc.TurnInput{Turn: a.Turn, Wait: a.worker, Input: data, EOF: eof}); err != nil {
			w.failLocked(fmt.Errorf("cannot send the answer: %w", err))
		}
		return
	}
	// The runtime does not see what its children read: record it here.
	line := timeline.InputLine{Prompt: a.Prompt, Secret: a.Secret, Author: author}
	if !a.Secret {
		line.Text = string(clip(trimNewline(data), timeline.MaxInputBytes))
	}
	s.appendLocked(line)
	s.lastLine = s.lastLine[:0]
	s.fed[a.reader] = true
	w.feedLocked(data, eof)
}

// hideLocked has the timeline show a secret to nobody, before anything can print it.
func (s *Session) hideLocked(secret string) {
	if err := s.log.Hide(secret); err != nil {
		s.appendLocked(timeline.Notice{Message: fmt.Sprintf("a secret is shown if the code prints it: %v", err)})
	}
}

// Answer is session.Session's.
func (s *Session) Answer(ctx context.Context, wait timeline.Seq, in session.Input) (uint64, error) {
	return s.answerAs(ctx, "", wait, in)
}

func (s *Session) answerAs(ctx context.Context, author string, id timeline.Seq, in session.Input) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, session.ErrClosed
	case s.state != session.StateWaiting || s.shown.ID != id:
		return 0, session.ErrStale
	case len(in.Data)+len(s.queue.data) > MaxInputBytes:
		return 0, session.Errorf(session.KindTooLarge, "the answer is too large: at most %d bytes fit", MaxInputBytes)
	}
	turn := s.turn.id
	if len(in.Data) == 0 && !in.EOF {
		return turn, nil // nothing to hand over: the wait goes on
	}
	s.queue.add(author, in)
	a := *s.shown
	s.shown = nil
	for i := range s.asked {
		if s.asked[i].ID == id {
			s.asked = append(s.asked[:i:i], s.asked[i+1:]...)
			break
		}
	}
	s.appendLocked(timeline.WaitEnded{Wait: id})
	s.resumeLocked()
	s.giveLocked(a)
	s.serveLocked()
	return turn, nil
}

// resumeLocked leaves the waiting state for the one that it interrupted.
func (s *Session) resumeLocked() {
	if s.turn.id == 0 {
		s.moveLocked(session.StateStarting)
	} else {
		s.moveLocked(session.StateRunning)
	}
}

func withNewline(b []byte) []byte {
	if len(b) == 0 || b[len(b)-1] != '\n' {
		return append(b, '\n')
	}
	return b
}

func trimNewline(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		return b[:n-1]
	}
	return b
}
