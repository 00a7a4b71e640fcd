package supervisor

import "time"

const (
	// The first look for programs that read the terminal comes after the worker was silent
	// for quiet; later ones come less and less often. Only the moment of a look depends on
	// time; its result is a fact of the kernel.
	quiet    = 3 * time.Millisecond
	maxPause = 50 * time.Millisecond

	// After a second of silence, the pause grows to the length of the silence divided by
	// pausePart, at most longestPause. So a program that reads without any output is seen
	// that much later. A look costs 0.1 ms, so fifty turns that last hours cost less than
	// one hundredth of a core. Any output starts anew.
	pausePart    = 20
	longestPause = 2 * time.Second

	// eagerLooks bounds the looks without a pause while there is input for a reader; each
	// takes about 0.1 ms.
	eagerLooks = 20

	// lateFrames bounds the looks, each after quiet, that are repeated because a frame that comes
	// before a reader's wait has not arrived.
	lateFrames = 300
)

// watchTerminal starts looking for terminal readers; s.mu is held.
func (w *worker) watchTerminal() {
	if w == nil || w.watching == nil {
		return
	}
	w.active.Store(time.Now().UnixNano())
	if w.armed && w.pause == quiet {
		return // the timer is set already; setting it again costs time, and turns are short
	}
	w.pause = quiet
	w.lookLaterLocked(quiet)
}

// nextPause returns the time until the next look, after this pause and this silence.
func nextPause(pause, silent time.Duration) time.Duration {
	return min(pause*3/2, max(maxPause, min(silent/pausePart, longestPause)))
}

// noteOutput notes output of the worker. It may be a prompt, so the next look for readers
// comes soon.
func (w *worker) noteOutput() {
	w.active.Store(time.Now().UnixNano())
	if w.slow.CompareAndSwap(true, false) {
		w.s.mu.Lock()
		defer w.s.mu.Unlock()
		if w.looksLocked() {
			w.watchTerminal()
		}
	}
}

// terminalReaders returns the programs that read the terminal before a turn begins. An
// earlier turn has left them behind, so they are not a wait of the next one.
func (s *Session) terminalReaders() map[string]bool {
	s.mu.Lock()
	w := s.worker
	idle := s.m.phase == phaseIdle
	s.mu.Unlock()
	if !idle || w.watching == nil || w.proc.readers.NoOtherReader() {
		return nil
	}
	known := make(map[string]bool)
	for _, r := range w.proc.readers.Readers() {
		known[r.Key] = true
	}
	return known
}

// look is run by the timer.
func (w *worker) look() {
	s := w.s
	s.mu.Lock()
	w.armed = false
	if !w.looksLocked() {
		s.mu.Unlock()
		return // the next turn, or answer, starts it again
	}
	turn := s.m.turn
	if silent := time.Duration(time.Now().UnixNano() - w.active.Load()); silent < quiet {
		w.pause = quiet
		w.lookLaterLocked(quiet - silent)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()

	underWay := w.proc.SignalsSent() != nil // before the readers are seen, of which those end yet that they strike
	readers := w.proc.readers.Readers()
	late := false
	if len(readers) > 0 {
		w.fence.catchUp(w.stopReading) // their prompts come before their waits
		late = w.fence.awaits()
	}

	s.mu.Lock()
	defer s.unlock()
	if s.m.turn != turn || !w.looksLocked() {
		if w.looksLocked() {
			w.lookLaterLocked(quiet) // for the turn that began meanwhile
		}
		return
	}
	if late && w.late < lateFrames {
		w.late++
		w.lookLaterLocked(quiet)
		return
	}
	w.late = 0
	if underWay {
		s.m.strikesLater(time.Now())
	}
	for _, r := range readers {
		s.m.reads(r.Key, r.Command, r.Secret)
	}
	s.performLocked()
	if w.looksLocked() {
		silent := time.Duration(0)
		last := w.active.Load()
		if last != 0 { // otherwise there is input that a reader will take
			silent = time.Duration(time.Now().UnixNano() - last)
		}
		w.pause = nextPause(w.pause, silent)
		w.slow.Store(w.pause > maxPause)
		if w.active.Load() != last { // there was output meanwhile, before slow was set
			w.pause = quiet
		}
		w.lookLaterLocked(w.pause)
	}
}

func (w *worker) lookLaterLocked(d time.Duration) {
	w.armed = true
	w.watching.Reset(d)
}

// looksLocked reports whether a look is useful: a terminal reader would be news, and can be
// distinguished from one that is taking its input.
func (w *worker) looksLocked() bool {
	return w.s.worker == w && w.s.m.looks() && len(w.input) == 0
}
