package timeline_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

// numberedLines returns n bytes of text in lines of 64 bytes.
func numberedLines(n int) []byte {
	line := []byte(strings.Repeat("0123456789abcde ", 4))
	line[63] = '\n'
	return bytes.Repeat(line, n/64+1)[:n]
}

func textEvent(data []byte) timeline.Event {
	return timeline.Event{Turn: 1, Body: timeline.Text{Data: data}}
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{16, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := newLog(b, nil)
			data := numberedLines(size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				l.Append(textEvent(data))
			}
		})
	}
}

// BenchmarkSpill appends 100 MB in events of 4 KiB and waits until the files contain them.
func BenchmarkSpill(b *testing.B) {
	data := numberedLines(4096)
	b.ReportAllocs()
	b.SetBytes(100e6)
	for b.Loop() {
		l := newLog(b, &timeline.Options{Dir: b.TempDir()})
		for range 100_000_000 / len(data) {
			l.Append(textEvent(data))
		}
		l.Sync()
		if n := l.LineCount(); n < 1_500_000 {
			b.Fatalf("got %d lines", n)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWindow100MB(b *testing.B) {
	l := newLog(b, &timeline.Options{Dir: b.TempDir()})
	data := numberedLines(4096)
	for range 100_000_000 / len(data) {
		l.Append(textEvent(data))
	}
	l.Sync()
	for b.Loop() {
		if n := len(l.Window(0, 64<<10, 64<<10)); n > 40 {
			b.Fatalf("got %d events", n)
		}
	}
}

// newLongLog returns a log of 100 000 events in 20 000 turns, most of them on disk only.
func newLongLog(b *testing.B) *timeline.Log {
	b.Helper()
	l := newLog(b, &timeline.Options{Dir: b.TempDir()})
	for turn := range uint64(20_000) {
		for _, body := range []timeline.Body{
			timeline.TurnStarted{Input: []byte("for i in range(10): print(i)"), Author: "ada"},
			timeline.Text{Data: numberedLines(640)}, timeline.Text{Data: numberedLines(640)}, timeline.Text{Data: numberedLines(64)},
			timeline.TurnEnded{Outcome: timeline.OutcomeOK},
		} {
			l.Append(timeline.Event{Turn: turn + 1, Generation: 1, Body: body})
		}
	}
	l.Sync()
	return l
}

// BenchmarkLong measures what the web UI does with 100 000 events: open, scroll and search.
// "all" reads all events, for comparison.
func BenchmarkLong(b *testing.B) {
	l := newLongLog(b)
	first := l.Turns(0, 0, false, 1)
	for _, arm := range []struct {
		name string
		do   func() int
	}{
		{"outline of the newest 500 turns", func() int { return len(l.Turns(0, 0, true, 500)) }},
		{"outline of the oldest 500 turns", func() int { return len(l.Turns(0, 0, false, 500)) }},
		{"window at the end", func() int { return len(l.Read(timeline.ReadRange{Backward: true, MaxEvents: 200, MaxBytes: 1 << 20})) }},
		{"window in the middle", func() int {
			return len(l.Read(timeline.ReadRange{After: 50_000, MaxEvents: 200, MaxBytes: 1 << 20}))
		}},
		{"window before the middle", func() int {
			return len(l.Read(timeline.ReadRange{Before: 50_000, Backward: true, MaxEvents: 200, MaxBytes: 1 << 20}))
		}},
		{"search through 8 MiB", func() int {
			p, err := timeline.LiteralPattern("needle")
			if err != nil {
				b.Fatal(err)
			}
			_, next, _ := l.Search(p, timeline.Cursor{}, 1)
			return int(next.Seq)
		}},
		{"all", func() int { return len(l.Read(timeline.ReadRange{MaxEvents: 1e6, MaxBytes: 1 << 40})) }},
	} {
		b.Run(arm.name, func(b *testing.B) {
			for b.Loop() {
				if arm.do() < len(first) {
					b.Fatal("nothing was read")
				}
			}
		})
	}
}
