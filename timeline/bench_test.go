package timeline_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

// lines returns n bytes of text in lines of 64 bytes.
func lines(n int) []byte {
	line := []byte(strings.Repeat("0123456789abcde ", 4))
	line[63] = '\n'
	return bytes.Repeat(line, n/64+1)[:n]
}

func text(data []byte) timeline.Event {
	return timeline.Event{Turn: 1, Body: timeline.Text{Data: data}}
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{16, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := newLog(b, nil)
			data := lines(size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				l.Append(text(data))
			}
		})
	}
}

// BenchmarkSpill appends 100 MB in events of 4 KiB and waits until the files have
// them.
func BenchmarkSpill(b *testing.B) {
	data := lines(4096)
	b.ReportAllocs()
	b.SetBytes(100e6)
	for b.Loop() {
		l := newLog(b, &timeline.Options{Dir: b.TempDir()})
		for range 100_000_000 / len(data) {
			l.Append(text(data))
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
	data := lines(4096)
	for range 100_000_000 / len(data) {
		l.Append(text(data))
	}
	l.Sync()
	for b.Loop() {
		if n := len(l.Window(0, 64<<10, 64<<10)); n > 40 {
			b.Fatalf("got %d events", n)
		}
	}
}

func BenchmarkRender128KiB(b *testing.B) {
	var events []timeline.Event
	for i := range 2000 {
		events = append(events, text(fmt.Appendf(nil, "%06d %s\n", i, strings.Repeat("x", 57))))
	}
	b.SetBytes(128 << 10)
	b.ReportAllocs()
	for b.Loop() {
		timeline.Render(events, nil)
	}
}
