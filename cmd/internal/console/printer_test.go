package console

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/turnstone-repl/turnstone/timeline"
)

func TestPrinter_Show(t *testing.T) {
	tests := []struct {
		name     string
		body     timeline.Body
		out, err string
	}{
		{"text, raw", timeline.Text{Data: []byte("\x1b[1mx\r\xff")}, "\x1b[1mx\r\xff", ""},
		{"errors", timeline.Text{Stream: timeline.Stderr, Data: []byte("e\n")}, "", "e\n"},
		{"a notice", timeline.Notice{Message: "so it is"}, "", "[so it is]\n"},
		{"a gap", timeline.Gap{From: 1, To: 2, Bytes: 5}, "", "[5 bytes of output came too fast and are not shown]\n"},
		{"a crash", timeline.WorkerExited{Reason: "killed by SIGKILL (out of memory)", LastLine: "x = [0] * n", PeakRSSBytes: 3 << 30}, "",
			"[killed by SIGKILL (out of memory); its last line was: x = [0] * n; it used up to 3.2 GB; its state is lost, and the next input starts a new one]\n"},
		{"a clean exit between turns", timeline.WorkerExited{Reason: "exit status 3", ExitCode: 3, Clean: true}, "",
			"[exit status 3; its state is lost, and the next input starts a new one]\n"},
		{"a reset by another client", timeline.WorkerExited{Reason: "reset", Clean: true}, "",
			"[reset; its state is lost, and the next input starts a new one]\n"},
		{"the end of the session", timeline.WorkerExited{Reason: "closed", Clean: true}, "", ""},
		{"a start that failed", timeline.WorkerExited{Reason: "exit status 1", ExitCode: 1, NeverReady: true}, "", ""},
		{"what was typed", timeline.InputLine{Prompt: "? ", Text: "typed"}, "", ""},
		{"a question, which is output already", timeline.InputRequested{Prompt: "? "}, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out, err strings.Builder
			p := &printer{out: &out, err: &err, startNewLine: func() {}, requestOpened: func(timeline.Seq) {}, endRelay: func() {}, changed: make(chan struct{})}
			p.printEvent(timeline.Event{Seq: 1, Turn: 1, Body: test.body})
			if out.String() != test.out || err.String() != test.err {
				t.Errorf("got %q and %q, want %q and %q", out.String(), err.String(), test.out, test.err)
			}
		})
	}
}

func TestPrinter_Display(t *testing.T) {
	t.Run("hides a clean exit that a turn asked for", func(t *testing.T) {
		var err strings.Builder
		p := &printer{err: &err, startNewLine: func() {}, requestOpened: func(timeline.Seq) {}, endRelay: func() {}}
		for _, body := range []timeline.Body{timeline.TurnEnded{Outcome: timeline.OutcomeEnded}, timeline.WorkerExited{Reason: "exit status 3", Clean: true}} {
			p.printEvent(timeline.Event{Turn: 1, Body: body})
		}
		if err.String() != "" {
			t.Errorf("got %q", err.String())
		}
	})
}

func TestPrinter_State(t *testing.T) {
	t.Run("reports when an input request is closed", func(t *testing.T) {
		var closed timeline.Seq
		p := &printer{requestClosed: func(id timeline.Seq) { closed = id }}
		p.printEvent(timeline.Event{Seq: 9, Body: timeline.InputRequestEnded{Request: 7}})
		if closed != 7 {
			t.Errorf("got request %d, want 7", closed)
		}
	})

	t.Run("waits for an event or for the gap that covers it", func(t *testing.T) {
		for name, e := range map[string]timeline.Event{
			"the event": {Seq: 5, Body: timeline.Notice{}},
			"a gap":     {Seq: 3, Body: timeline.Gap{From: 3, To: 6}},
		} {
			synctest.Test(t, func(t *testing.T) {
				p := &printer{changed: make(chan struct{})}
				p.markShown(timeline.Event{Seq: 2, Body: timeline.Notice{}})
				done := make(chan bool, 1)
				go func() { done <- p.waitUntilShown(t.Context(), 5) }()
				synctest.Wait()
				if len(done) > 0 {
					t.Errorf("%s: returned before the event", name)
				}
				p.markShown(e)
				if !<-done {
					t.Errorf("%s: still waits", name)
				}
			})
		}
	})

	t.Run("stops waiting when its context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p := &printer{changed: make(chan struct{})}
		if p.waitUntilShown(ctx, 1) {
			t.Error("reports an event that never came as shown")
		}
	})
}
