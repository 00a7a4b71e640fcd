package supervisor

import "time"

const (
	// The first look for programs that read the terminal comes after the worker was silent
	// for quiet; later ones come less and less often. Only the moment of a look depends on
	// time; its result is a fact of the kernel.
	firstScanDelay  = 3 * time.Millisecond
	maxScanInterval = 50 * time.Millisecond

	// After a second of silence, the pause grows to the length of the silence divided by
	// silenceDivisor, at most maxSilentScanInterval. So a program that reads without any output is seen
	// that much later. A look costs 0.1 ms, so fifty turns that last hours cost less than
	// one hundredth of a core. Any output starts anew.
	silenceDivisor        = 20
	maxSilentScanInterval = 2 * time.Second

	// maxEagerScans bounds the looks without a pause while there is input for a reader; each
	// takes about 0.1 ms.
	maxEagerScans = 20

	// maxLateScans bounds the looks, each after quiet, that are repeated because a frame that comes
	// before a reader's wait has not arrived.
	maxLateScans = 300
)

// startReaderScan starts looking for terminal readers; s.mu is held.
func (w *worker) startReaderScan() {
	if w == nil || w.readerTimer == nil {
		return
	}
	w.lastOutput.Store(time.Now().UnixNano())
	if w.readerTimerSet && w.scanInterval == firstScanDelay {
		return // the timer is set already; setting it again costs time, and turns are short
	}
	w.scanInterval = firstScanDelay
	w.scheduleScanLocked(firstScanDelay)
}

// nextScanInterval returns the time until the next look, after this pause and this silence.
func nextScanInterval(pause, silent time.Duration) time.Duration {
	return min(pause*3/2, max(maxScanInterval, min(silent/silenceDivisor, maxSilentScanInterval)))
}

// noteOutput notes output of the worker. It may be a prompt, so the next look for readers
// comes soon.
func (w *worker) noteOutput() {
	w.lastOutput.Store(time.Now().UnixNano())
	if w.scansSlowly.CompareAndSwap(true, false) {
		w.s.mu.Lock()
		defer w.s.mu.Unlock()
		if w.needsScanLocked() {
			w.startReaderScan()
		}
	}
}

// terminalReaderCode returns the programs that read the terminal before a turn begins. An
// earlier turn has left them behind, so they are not a wait of the next one.
func (s *Session) terminalReaders() map[string]bool {
	s.mu.Lock()
	w := s.worker
	idle := s.m.phase == phaseIdle
	s.mu.Unlock()
	if !idle || w.readerTimer == nil || w.proc.readers.HasNoOtherReader() {
		return nil
	}
	known := make(map[string]bool)
	for _, r := range w.proc.readers.Readers() {
		known[r.Key] = true
	}
	return known
}

// scanReaders is run by the timer.
func (w *worker) scanReaders() {
	s := w.s
	s.mu.Lock()
	w.readerTimerSet = false
	if !w.needsScanLocked() {
		s.mu.Unlock()
		return // the next turn, or answer, starts it again
	}
	turn := s.m.turn
	if silent := time.Duration(time.Now().UnixNano() - w.lastOutput.Load()); silent < firstScanDelay {
		w.scanInterval = firstScanDelay
		w.scheduleScanLocked(firstScanDelay - silent)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()

	underWay := w.proc.SignalsSent() != nil // before the readers are seen, of which those end yet that they strike
	readers := w.proc.readers.Readers()
	late := false
	if len(readers) > 0 {
		w.merger.catchUp(w.stopReading) // their prompts come before their waits
		late = w.merger.isAwaitingFrame()
	}

	s.mu.Lock()
	defer s.unlock()
	if s.m.turn != turn || !w.needsScanLocked() {
		if w.needsScanLocked() {
			w.scheduleScanLocked(firstScanDelay) // for the turn that began meanwhile
		}
		return
	}
	if late && w.lateScans < maxLateScans {
		w.lateScans++
		w.scheduleScanLocked(firstScanDelay)
		return
	}
	w.lateScans = 0
	if underWay {
		s.m.renewReaderGrace(time.Now())
	}
	for _, r := range readers {
		s.m.handleTerminalReader(r.Key, r.Command, r.Secret)
	}
	s.performLocked()
	if w.needsScanLocked() {
		silent := time.Duration(0)
		last := w.lastOutput.Load()
		if last != 0 { // otherwise there is input that a reader will take
			silent = time.Duration(time.Now().UnixNano() - last)
		}
		w.scanInterval = nextScanInterval(w.scanInterval, silent)
		w.scansSlowly.Store(w.scanInterval > maxScanInterval)
		if w.lastOutput.Load() != last { // there was output meanwhile, before slow was set
			w.scanInterval = firstScanDelay
		}
		w.scheduleScanLocked(w.scanInterval)
	}
}

func (w *worker) scheduleScanLocked(d time.Duration) {
	w.readerTimerSet = true
	w.readerTimer.Reset(d)
}

// needsScanLocked reports whether a look is useful: a terminal reader would be news, and can be
// distinguished from one that is taking its input.
func (w *worker) needsScanLocked() bool {
	return w.s.worker == w && w.s.m.needsReaderScan() && len(w.terminalInput) == 0
}
