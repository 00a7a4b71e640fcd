package supervisor

import (
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
)

const (
	// The first scan for programs that read the terminal comes after the worker was silent for
	// firstScanDelay; later scans come less and less often. Only the time of a scan depends on a
	// clock; its result is a fact from the kernel.
	firstScanDelay  = 3 * time.Millisecond
	maxScanInterval = 50 * time.Millisecond

	// After a second of silence, the interval grows to the length of the silence divided by
	// silenceDivisor, at most maxSilentScanInterval. A program that reads without any output is
	// found that much later. Any output resets the interval. A scan costs 0.1 ms. Fifty turns that
	// last for hours cost less than one hundredth of a core, instead of 13 % with a scan every 50
	// ms.
	//
	// Scans only in the first minute were rejected, because they miss a program that asks later.
	// Scans only after output were rejected, because they miss a program that reads without a
	// prompt. The kernel offers no notification of a blocked read without privileges.
	silenceDivisor        = 20
	maxSilentScanInterval = 2 * time.Second

	// maxListenerInterval is the longest time between two scans while a program polls the terminal.
	// After a scan that has missed it, the next comes after missedScanInterval.
	maxListenerInterval = 250 * time.Millisecond
	missedScanInterval  = 30 * time.Millisecond

	// maxEagerScans bounds the scans in a row, without an interval, while there is input for a
	// reader. Each takes about 0.1 ms.
	maxEagerScans = 20

	// maxLateScans bounds the scans that are repeated, each after firstScanDelay, because a frame
	// that belongs before a reader's request has not arrived.
	maxLateScans = 300
)

// startReaderScan starts scanning for terminal readers; s.mu is held.
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

// nextScanInterval returns the time until the next scan, given the last interval and the length of
// the silence.
func nextScanInterval(pause, silent time.Duration) time.Duration {
	return min(pause*3/2, max(maxScanInterval, min(silent/silenceDivisor, maxSilentScanInterval)))
}

// noteOutput records that the worker wrote output. It may be a prompt, so the next scan for readers
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

// terminalReaders returns the programs that read the terminal before a turn starts. An earlier turn
// left them behind, so they do not become input requests of the next turn.
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

// scanReaders scans for terminal readers and opens input requests for them. The timer calls it.
func (w *worker) scanReaders() {
	s := w.s
	s.mu.Lock()
	w.readerTimerSet = false
	if !w.needsScanLocked() {
		s.mu.Unlock()
		return // the next turn, or answer, starts it again
	}
	turn := s.m.turn
	var listeners []listener
	for _, l := range s.m.listeners {
		listeners = append(listeners, *l)
	}
	if l := s.m.polledReader(); l != nil {
		reader := l.reader
		s.mu.Unlock()
		w.rescanListener(turn, reader)
		return
	}
	if silent := time.Duration(time.Now().UnixNano() - w.lastOutput.Load()); silent < firstScanDelay {
		w.scanInterval = firstScanDelay
		w.scheduleScanLocked(firstScanDelay - silent)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()

	signalsPending := w.proc.SignalsSent() != nil // before the scan: it may still find readers that these signals end
	scan, awaitingFrame := w.findReaders(listeners)

	s.mu.Lock()
	defer s.unlock()
	if s.m.turn != turn || !w.needsScanLocked() {
		if w.needsScanLocked() {
			w.scheduleScanLocked(firstScanDelay) // for the turn that started in the meantime
		}
		return
	}
	if awaitingFrame && w.lateScans < maxLateScans {
		w.lateScans++
		w.scheduleScanLocked(firstScanDelay)
		return
	}
	w.lateScans = 0
	if signalsPending {
		s.m.renewReaderGrace(time.Now())
	}
	last := w.lastOutput.Load()
	scan.now = time.Now()
	scan.silent = min(scan.now.Sub(time.Unix(0, last)), scan.now.Sub(w.typing.last))
	next := s.m.handleReaderScan(scan)
	s.performLocked()
	w.scheduleNextScanLocked(scan, last, next)
}

// findReaders looks for terminal readers, and delivers the output that came before. awaitingFrame
// reports that a frame that belongs before that output has not arrived.
func (w *worker) findReaders(listeners []listener) (scan readerScan, awaitingFrame bool) {
	scan.readers = w.proc.readers.Readers()
	for _, r := range w.unscheduledListeners(listeners, scan.readers) {
		scan.readers, scan.unscheduled = append(scan.readers, r), append(scan.unscheduled, r.Key)
	}
	if len(scan.readers) > 0 {
		if w.merger.catchUp(w.stopReading) { // their prompts come before their requests
			w.lastOutput.Store(time.Now().UnixNano())
		}
		awaitingFrame = w.merger.isAwaitingFrame()
	}
	if slices.ContainsFunc(scan.readers, func(r pty.TerminalReader) bool { return r.Raw }) {
		scan.screenHints = w.display.hints()
	}
	return scan, awaitingFrame
}

// scheduleNextScanLocked schedules the scan after one that began when the last output was at last. If
// next is not 0, the machine has something to decide after that time.
func (w *worker) scheduleNextScanLocked(scan readerScan, last int64, next time.Duration) {
	if !w.needsScanLocked() {
		return
	}
	silent := time.Duration(0)
	if last != 0 { // otherwise there is input that a reader will take
		silent = scan.now.Sub(time.Unix(0, last))
	}
	w.scanInterval = nextScanInterval(w.scanInterval, silent)
	if len(w.s.m.listeners) > 0 && w.scanInterval > maxScanInterval {
		w.scanInterval = min(w.scanInterval, listenerInterval(silent))
	}
	if next > 0 {
		w.scanInterval = min(w.scanInterval, next)
	}
	w.scansSlowly.Store(w.scanInterval > maxScanInterval)
	if w.lastOutput.Load() != last { // output arrived before scansSlowly was set
		w.scanInterval = firstScanDelay
	}
	w.scheduleScanLocked(w.scanInterval)
}

// unscheduledListeners returns the listeners that a scan has not found because they wait for a
// processor.
func (w *worker) unscheduledListeners(listeners []listener, found []pty.TerminalReader) (unscheduled []pty.TerminalReader) {
	for _, l := range listeners {
		if slices.ContainsFunc(found, func(r pty.TerminalReader) bool { return r.Key == l.reader.Key }) {
			continue
		}
		if r, state := w.proc.readers.RefreshReader(l.reader); l.stillPolls(r, state) {
			unscheduled = append(unscheduled, r)
		}
	}
	return unscheduled
}

// listenerInterval returns the time until the next scan while a program polls the terminal. Such a
// program may wait at any moment.
func listenerInterval(silent time.Duration) time.Duration {
	return max(maxScanInterval, min(silent/silenceDivisor, maxListenerInterval))
}

// rescanListener looks again at the thread whose polling is the input request that clients see.
func (w *worker) rescanListener(turn *turn, reader pty.TerminalReader) {
	s := w.s
	reader, state := w.proc.readers.RefreshReader(reader)
	s.mu.Lock()
	defer s.unlock()
	if s.m.turn == turn {
		s.m.handleListenerScan(reader, state, time.Now())
		s.performLocked()
	}
	if !w.needsScanLocked() || w.readerTimerSet {
		return
	}
	if w.scanInterval = min(w.scanInterval*3/2, maxListenerInterval); state != pty.Polling {
		w.scanInterval = missedScanInterval
	}
	w.scheduleScanLocked(w.scanInterval)
}

func (w *worker) scheduleScanLocked(d time.Duration) {
	w.readerTimerSet = true
	w.readerTimer.Reset(d)
}

// needsScanLocked reports whether a scan is useful: a terminal reader would be new, and could not
// be confused with one that is taking its input.
func (w *worker) needsScanLocked() bool {
	return w.s.worker == w && w.s.m.needsReaderScan() && len(w.typing.queue) == 0
}
