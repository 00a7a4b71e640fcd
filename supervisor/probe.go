package supervisor

import "time"

const (
	// A program that reads the terminal is looked for after the worker has said
	// nothing for quiet, and then less and less often. When to look is a matter
	// of timing; what is seen is a fact of the kernel.
	quiet    = 3 * time.Millisecond
	maxPause = 50 * time.Millisecond
)

// watchTerminal looks out for terminal readers from now on; s.mu is held.
func (w *worker) watchTerminal(s *Session) {
	if w == nil || !w.proc.CanSeeReaders() {
		return
	}
	w.pause = quiet
	w.active.Store(time.Now().UnixNano())
	if w.watching == nil {
		w.watching = time.AfterFunc(quiet, w.look)
		return
	}
	w.watching.Reset(quiet)
}

// look is run by the timer.
func (w *worker) look() {
	s := w.s
	s.mu.Lock()
	if !w.looksLocked() {
		s.mu.Unlock()
		return // the next turn, or answer, starts it again
	}
	turn := s.turn
	if silent := time.Duration(time.Now().UnixNano() - w.active.Load()); silent < quiet {
		w.pause = quiet
		w.watching.Reset(quiet - silent)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()

	readers := w.proc.Readers()

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != turn || !w.looksLocked() {
		return
	}
	for _, r := range readers {
		if !w.known[r.Key] && !s.fed[r.Key] {
			s.terminalWaitLocked(r.Key, r.Command, r.Secret)
		}
	}
	if w.looksLocked() {
		w.pause = min(w.pause*3/2, maxPause)
		w.watching.Reset(w.pause)
	}
}

// looksLocked reports whether a terminal reader would be news.
func (w *worker) looksLocked() bool {
	s := w.s
	return s.worker == w && s.turn != nil && !s.turn.unacked && len(s.asked) == 0 && (s.state == StateStarting || s.state == StateRunning)
}
