package supervisor

import "time"

const (
	// A program that reads the terminal is looked for after the worker has said
	// nothing for quiet, and then less and less often. When to look is a matter
	// of timing; what is seen is a fact of the kernel.
	quiet    = 3 * time.Millisecond
	maxPause = 50 * time.Millisecond

	// After a second of silence a look comes later by a part of how long that has
	// lasted, and by longestPause at most: so much later is a program seen that reads
	// without a word. A look costs 0.1 ms, and fifty turns of hours less than one
	// hundredth of a core. Whatever is put out begins anew.
	pausePart    = 20
	longestPause = 2 * time.Second

	// eagerLooks is how often a reader is looked for without a pause while there
	// is input for it; a look takes about 0.1 ms.
	eagerLooks = 20
)

// watchTerminal looks out for terminal readers from now on; s.mu is held.
func (w *worker) watchTerminal() {
	if w == nil || w.watching == nil {
		return
	}
	w.active.Store(time.Now().UnixNano())
	if w.armed && w.pause == quiet {
		return // it is under way; setting a timer has a price, and turns are short
	}
	w.pause = quiet
	w.lookLaterLocked(quiet)
}

// nextPause is until the next look, after a pause and a silence.
func nextPause(pause, silent time.Duration) time.Duration {
	return min(pause*3/2, max(maxPause, min(silent/pausePart, longestPause)))
}

// heard notes that the worker has said something. It may be a prompt: who reads is
// looked for soon again.
func (w *worker) heard() {
	w.active.Store(time.Now().UnixNano())
	if w.slow.CompareAndSwap(true, false) {
		w.s.mu.Lock()
		defer w.s.mu.Unlock()
		if w.looksLocked() {
			w.watchTerminal()
		}
	}
}

// terminalReaders is who reads the terminal before a turn begins: something that
// an earlier turn left behind, which is no news in the next one.
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

	readers := w.proc.readers.Readers()
	if len(readers) > 0 {
		w.fence.catchUp(w.deaf) // their prompts come before their waits
	}

	s.mu.Lock()
	defer s.unlock()
	if s.m.turn != turn || !w.looksLocked() {
		if w.looksLocked() {
			w.lookLaterLocked(quiet) // for the turn that began meanwhile
		}
		return
	}
	for _, r := range readers {
		s.m.reads(r.Key, r.Command, r.Secret)
	}
	s.performLocked()
	if w.looksLocked() {
		silent := time.Duration(0)
		last := w.active.Load()
		if last != 0 { // else there is input that somebody will read
			silent = time.Duration(time.Now().UnixNano() - last)
		}
		w.pause = nextPause(w.pause, silent)
		w.slow.Store(w.pause > maxPause)
		if w.active.Load() != last { // something was said meanwhile, and found it not slow
			w.pause = quiet
		}
		w.lookLaterLocked(w.pause)
	}
}

func (w *worker) lookLaterLocked(d time.Duration) {
	w.armed = true
	w.watching.Reset(d)
}

// looksLocked reports whether a terminal reader would be news, and can be told from
// one that takes what it was given.
func (w *worker) looksLocked() bool {
	return w.s.worker == w && w.s.m.looks() && len(w.input) == 0
}
