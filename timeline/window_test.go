package timeline_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// splitAtOmitted returns the Omitted of a window, and the events before and after it.
func splitAtOmitted(t testing.TB, events []timeline.Event) (e timeline.Omitted, head, tail []timeline.Event) {
	t.Helper()
	for i, ev := range events {
		if b, ok := ev.Body.(timeline.Omitted); ok {
			if e.To != 0 {
				t.Fatal("got a second Omitted")
			}
			e, head, tail = b, events[:i], events[i+1:]
		}
	}
	if e.To == 0 {
		t.Fatal("nothing was omitted")
	}
	return e, head, tail
}

// checkOmitted fails unless the lines named by the Omitted of a window are those that the
// window leaves out of a text that is rendered unchanged.
func checkOmitted(t testing.TB, l *timeline.Log, all []byte, window []timeline.Event) {
	t.Helper()
	e, before, after := splitAtOmitted(t, window)
	head, _ := textAndGaps(before)
	tail, _ := textAndGaps(after)
	if !bytes.HasPrefix(all, head) || !bytes.HasSuffix(all, tail) {
		t.Fatal("head or tail is not what was appended")
	}
	missing := all[len(head) : len(all)-len(tail)]
	if e.Bytes != int64(len(missing)) {
		t.Errorf("got %d bytes omitted, want %d", e.Bytes, len(missing))
	}
	file, err := os.ReadFile(l.OutputPath())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(file), "\n")
	if e.FirstLine < 1 || e.LastLine < e.FirstLine || e.LastLine > len(lines) {
		t.Fatalf("got lines %d-%d of %d", e.FirstLine, e.LastLine, len(lines))
	}
	if got := strings.Join(lines[e.FirstLine-1:e.LastLine], ""); got != string(missing) {
		t.Errorf("lines %d-%d are %d bytes, missing are %d", e.FirstLine, e.LastLine, len(got), len(missing))
	}
}

func TestWindow(t *testing.T) {
	t.Run("names exactly the lines that hold omitted text", func(t *testing.T) {
		for _, memory := range []int64{8 << 10, 4 << 20} {
			for _, chunk := range []int{7, 100, 5000, 70_000} {
				t.Run(fmt.Sprintf("memory %d, chunks up to %d", memory, chunk), func(t *testing.T) {
					l := newLog(t, &timeline.Options{MemoryBytes: memory, Dir: t.TempDir()})
					random := rand.New(rand.NewPCG(1, uint64(chunk)))
					var all []byte
					for i := 0; len(all) < 300_000; i++ {
						all = fmt.Appendf(all, "%d é%s\n", i, strings.Repeat("x", random.IntN(150)))
					}
					for rest := all; len(rest) > 0; {
						n := min(len(rest), 1+random.IntN(chunk))
						stream := timeline.Stream(0)
						if random.IntN(4) == 0 && bytes.IndexFunc(rest[:n], func(r rune) bool { return r > '~' }) < 0 {
							stream = timeline.Stderr
						}
						l.Append(timeline.Event{Turn: 1, Body: timeline.Text{Stream: stream, Data: rest[:n]}})
						rest = rest[n:]
					}
					l.Sync() // Window itself waits only for a bounded time
					for _, sizes := range [][2]int{{4096, 4096}, {0, 2000}, {2000, 0}, {64 << 10, 10 << 10}, {1000, 100_000}} {
						checkOmitted(t, l, all, l.Window(0, sizes[0], sizes[1]))
					}
				})
			}
		}
	})

	t.Run("returns everything that fits its bounds", func(t *testing.T) {
		eachLogKind(t, timeline.Options{}, func(t *testing.T, l *timeline.Log) {
			for range 20 {
				l.Append(textEvent(numberedLines(1000)))
			}
			got := l.Window(5, 64<<10, 64<<10)
			wantContiguous(t, got, 5, 20)
			if got := l.Window(20, 1, 1); len(got) != 0 {
				t.Errorf("got %v after the last event", got)
			}
		})
	})

	t.Run("is bounded and has the newest events", func(t *testing.T) {
		eachLogKind(t, timeline.Options{MemoryBytes: 1 << 20}, func(t *testing.T, l *timeline.Log) {
			for i := range 20_000 {
				l.Append(textEvent(fmt.Appendf(nil, "%d\n", i)))
			}
			got := l.Window(0, 10_000, 20_000)
			data, _ := textAndGaps(got)
			if len(got) > 2000 || len(data) > 30_000 || !bytes.HasSuffix(data, []byte("\n19999\n")) {
				t.Errorf("got %d events with %d bytes", len(got), len(data))
			}
		})
	})

	t.Run("keeps the newest structural events of the middle", func(t *testing.T) {
		for _, memory := range []int64{64 << 10, 4 << 20} {
			l := newLog(t, &timeline.Options{MemoryBytes: memory, Dir: t.TempDir()})
			for i := range 3000 {
				l.Append(textEvent(numberedLines(500)))
				if i%10 == 0 {
					l.Append(timeline.Event{Body: timeline.Notice{Message: fmt.Sprint(i)}})
				}
			}
			e, _, tail := splitAtOmitted(t, l.Window(0, 4<<10, 4<<10))
			var kept []int
			for _, ev := range tail {
				if n, ok := ev.Body.(timeline.Notice); ok && ev.Seq < e.To {
					var i int
					fmt.Sscan(n.Message, &i)
					kept = append(kept, i)
				}
			}
			if len(kept) != 200 {
				t.Fatalf("memory %d: got %d notices, want 200", memory, len(kept))
			}
			for i, n := range kept {
				if want := kept[0] + 10*i; n != want {
					t.Fatalf("got notice %d, want %d", n, want)
				}
			}
			if kept[199] < 2900 {
				t.Errorf("the newest is %d", kept[199])
			}
		}
	})

	t.Run("keeps an image whole next to long text", func(t *testing.T) {
		l := newLog(t, nil)
		l.Append(textEvent(numberedLines(10_000)))
		l.Append(timeline.Event{Body: timeline.NewImageDisplay("image/png", make([]byte, 300_000), "", "")})
		l.Append(textEvent(numberedLines(10_000)))
		wantContiguous(t, l.Window(0, 64<<10, 64<<10), 0, 3)
	})

	t.Run("reports a gap for events that are in no file", func(t *testing.T) {
		l := newLog(t, &timeline.Options{MemoryBytes: 32 << 10, FileBytes: 100_000, Dir: t.TempDir()})
		var all []byte
		for i := range 540 {
			data := append(numberedLines(990), fmt.Sprintf("%08d\n", i)...)
			all = append(all, data...)
			l.Append(textEvent(data))
			l.Sync()
		}
		window := l.Window(0, 10_000, 10_000)
		e, _, _ := splitAtOmitted(t, window)
		data, gaps := textAndGaps(window)
		if len(gaps) != 1 || gaps[0].From != 1 || e.From <= gaps[0].To {
			t.Fatalf("got %+v and gaps %+v, want one at the beginning", e, gaps)
		}
		if got := e.Bytes + gaps[0].Bytes + int64(len(data)); got != int64(len(all)) {
			t.Errorf("got %d bytes shown, omitted and lost, want %d", got, len(all))
		}
		if e.FirstLine < 2 || e.LastLine <= e.FirstLine || e.LastLine > l.LineCount() {
			t.Errorf("got lines %d-%d of %d", e.FirstLine, e.LastLine, l.LineCount())
		}
	})

	t.Run("cuts one long line between characters", func(t *testing.T) {
		l := newLog(t, &timeline.Options{Dir: t.TempDir()})
		l.Append(textEvent([]byte("first\n")))
		for range 100 {
			l.Append(textEvent(bytes.Repeat([]byte("€"), 3000)))
		}
		l.Sync() // Window itself waits only for a bounded time
		e, head, tail := splitAtOmitted(t, l.Window(0, 5000, 5001))
		if e.FirstLine != 2 || e.LastLine != 2 {
			t.Errorf("got lines %d-%d, want 2-2", e.FirstLine, e.LastLine)
		}
		a, _ := textAndGaps(head)
		b, _ := textAndGaps(tail)
		if strings.ContainsRune(string(a)+string(b), '\uFFFD') || len(a) < 4900 || len(b) < 4900 {
			t.Errorf("got %d and %d bytes", len(a), len(b))
		}
	})

	// The output also contains the message, at its end.
	t.Run("a long error message does not displace the output", func(t *testing.T) {
		l := newLog(t, &timeline.Options{Dir: t.TempDir()})
		message := strings.Repeat("m", 60<<10)
		l.Append(textEvent([]byte("Error: " + strings.Repeat("m", 140<<10) + "the end\n")))
		l.Append(timeline.Event{Turn: 1, Body: timeline.TurnEnded{Outcome: timeline.OutcomeError, Name: "Error", Message: message}})
		l.Sync() // Window itself waits only for a bounded time
		_, _, tail := splitAtOmitted(t, l.Window(0, 64<<10, 64<<10))
		got, _ := textAndGaps(tail)
		if !strings.HasSuffix(string(got), "the end\n") || len(got) < 60<<10 {
			t.Errorf("got %d bytes of the end", len(got))
		}
	})
}

func TestRenderOmission(t *testing.T) {
	t.Run("names the lines that hold the omitted output", func(t *testing.T) {
		l := newLog(t, &timeline.Options{Dir: t.TempDir()})
		for _, n := range []int{2000, 100_000} { // within the window, and beyond
			after := l.LastSeq()
			first := l.LineCount() + 1
			l.Append(timeline.Event{Turn: 1, Body: timeline.TurnStarted{}})
			for i := range n {
				l.Append(timeline.Event{Turn: 1, Body: timeline.Text{Data: fmt.Appendf(nil, "\x1b[1mline\x1b[0m %d of the output\r\n", i)}})
			}
			l.Append(timeline.Event{Turn: 1, Body: timeline.TurnEnded{Outcome: "ok"}})
			l.Sync() // Window itself waits only so long
			got := render.Events(l.Window(after, 64<<10, 64<<10), &render.Options{OutputPath: l.OutputPath()}).Text()
			m := regexp.MustCompile(`(?s)^(.*)… [\d,]+ lines \([\d.]+ [KM]B\) elided: lines (\d+)-(\d+) of (\S+) …\n(.*)$`).FindStringSubmatch(got)
			if m == nil {
				t.Fatalf("no lines are named in %q", regexp.MustCompile(`….*…`).FindAllString(got, -1))
			}
			var from, to int
			fmt.Sscan(m[2], &from)
			fmt.Sscan(m[3], &to)
			if want := first + strings.Count(m[1], "\n"); from != want {
				t.Errorf("got lines from %d, want %d", from, want)
			}
			if want := first + n - 1 - strings.Count(m[5], "\n"); to != want {
				t.Errorf("got lines to %d, want %d", to, want)
			}
			if m[4] != l.OutputPath() || !strings.HasSuffix(got, fmt.Sprintf("line %d of the output\n", n-1)) {
				t.Errorf("got %q at the end", got[len(got)-100:])
			}
		}
	})

	t.Run("names the file while lines are not written yet", func(t *testing.T) {
		events := []timeline.Event{
			{Seq: 1, Turn: 1, Body: timeline.Text{Data: []byte("first\n")}, Line: 1},
			{Seq: 2, Turn: 1, Body: timeline.Omitted{From: 2, To: 9, Bytes: 900_000}},
			{Seq: 10, Turn: 1, Body: timeline.Text{Data: []byte(strings.Repeat("later\nlines\n", 500))}},
		}
		got := render.Events(events, &render.Options{MaxChars: 1000, OutputPath: "/a/output.txt"}).Text()
		if !regexp.MustCompile(`(?m)^… [\d.]+ KB elided: see /a/output\.txt …$`).MatchString(got) {
			t.Errorf("the omission in %q has unknown counts, or names no file", regexp.MustCompile(`….*…`).FindAllString(got, -1))
		}
	})
}
