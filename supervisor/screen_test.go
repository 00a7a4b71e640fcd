package supervisor

import (
	"fmt"
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestStreamMerger_Screen(t *testing.T) {
	t.Parallel()
	var p mergeRecorder
	taken := false
	f := p.newMerger()
	f.isScreenOn = func() bool { return taken }
	f.onScreenChange = func(on bool) { fmt.Fprintf(&p.b, "<%t>", on) }
	stop := make(chan struct{})
	p.write(f, "before\r\n", stop)
	taken = true
	p.write(f, "drawn\r\n", stop)
	taken = false
	p.write(f, "last drawn ", stop)
	p.write(f, "behind", stop)
	if got, want := p.b.String(), "before\n<true>drawn\r\nlast drawn <false>behind"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// screenEvents returns the events about the screen and input requests as text.
func screenEvents(log *timeline.Log) (events []string) {
	for _, e := range log.Read(timeline.ReadRange{MaxEvents: 1000, MaxBytes: 1 << 20}) {
		switch b := e.Body.(type) {
		case timeline.FullScreenChanged:
			events = append(events, fmt.Sprintf("screen %t", b.On))
		case timeline.InputRequested:
			events = append(events, "input requested")
		case timeline.InputRequestEnded:
			events = append(events, "input request ended")
		case timeline.TurnEnded:
			events = append(events, "turn ended")
		}
	}
	return events
}

func TestScreen_EndsWithTurn(t *testing.T) {
	t.Parallel()
	log, err := timeline.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m := &sessionMachine{machineConfig: machineConfig{log: log}, turnHistory: turnHistory{turn: &turn{id: 1}}, phase: phaseRunning, knownReaders: map[string]bool{}, fedReaders: map[string]bool{}}
	m.handleTerminalReader(pty.TerminalReader{Key: "before", Command: "cat"}, readerScan{})
	m.handleScreen(true)
	m.handleScreen(true)
	m.handleTerminalReader(pty.TerminalReader{Key: "other", Command: "less"}, readerScan{})
	if m.phase != phaseRunning || len(m.requests) > 0 {
		t.Errorf("phase %s, %d input requests, want none from a program that has the keys", m.phase, len(m.requests))
	}
	m.finishTurn(timeline.OutcomeOK, nil, "")
	m.handleScreen(true) // after the turn it has no effect
	want := []string{"input requested", "input request ended", "screen true", "screen false", "turn ended"}
	if got := screenEvents(log); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
