package timeline_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/timeline"
)

func newLog(t testing.TB, o *timeline.Options) *timeline.Log {
	t.Helper()
	l, err := timeline.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// eachLogKind calls f with a log in memory and with one that has files.
func eachLogKind(t *testing.T, o timeline.Options, f func(t *testing.T, l *timeline.Log)) {
	t.Run("memory", func(t *testing.T) { f(t, newLog(t, &o)) })
	t.Run("files", func(t *testing.T) {
		o.Dir = t.TempDir()
		f(t, newLog(t, &o))
	})
}

// textAndGaps returns all text of the events, and their gaps.
func textAndGaps(events []timeline.Event) (data []byte, gaps []timeline.Gap) {
	for _, e := range events {
		switch b := e.Body.(type) {
		case timeline.Text:
			data = append(data, b.Data...)
		case timeline.Gap:
			gaps = append(gaps, b)
		}
	}
	return data, gaps
}

// readUpTo reads a follower up to a Seq.
func readUpTo(t testing.TB, l *timeline.Log, after, last timeline.Seq) []timeline.Event {
	t.Helper()
	var events []timeline.Event
	for e := range l.Follow(t.Context(), after) {
		events = append(events, e)
		if e.Seq >= last {
			return events
		}
	}
	t.Fatal("follower ended early")
	return nil
}

// seqError returns an error unless every event after the cursor occurs exactly once, or in a
// gap.
func seqError(events []timeline.Event, after, last timeline.Seq) error {
	for _, e := range events {
		first := e.Seq
		if g, ok := e.Body.(timeline.Gap); ok {
			first = g.From
			if g.To != e.Seq {
				return fmt.Errorf("got a gap up to %d with Seq %d", g.To, e.Seq)
			}
		}
		if first != after+1 {
			return fmt.Errorf("got an event from %d after %d", first, after)
		}
		after = e.Seq
	}
	if after != last {
		return fmt.Errorf("got events up to %d, want %d", after, last)
	}
	return nil
}

func wantContiguous(t testing.TB, events []timeline.Event, after, last timeline.Seq) {
	t.Helper()
	if err := seqError(events, after, last); err != nil {
		t.Fatal(err)
	}
}

func TestAppend(t *testing.T) {
	t.Run("numbers events and sets their time", func(t *testing.T) {
		eachLogKind(t, timeline.Options{}, func(t *testing.T, l *timeline.Log) {
			a := l.Append(textEvent([]byte("a")))
			at := time.Unix(1, 0)
			b := l.Append(timeline.Event{At: at, Generation: 2, Turn: 3, BetweenTurns: true, Body: timeline.Notice{Message: "b"}})
			if a.Seq != 1 || b.Seq != 2 || l.LastSeq() != 2 {
				t.Errorf("got %d, %d, last %d, want 1, 2, 2", a.Seq, b.Seq, l.LastSeq())
			}
			if a.At.IsZero() || !b.At.Equal(at) {
				t.Errorf("got times %v and %v", a.At, b.At)
			}
			since := l.EventsSince(1)
			if len(since) != 1 || since[0].Seq != b.Seq || since[0].Body != b.Body {
				t.Errorf("got %v, want %v", since, b)
			}
		})
	})

	t.Run("panics on bodies that only readers make", func(t *testing.T) {
		for _, b := range []timeline.Body{nil, timeline.Gap{}, timeline.Omitted{}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%T was appended", b)
					}
				}()
				newLog(t, nil).Append(timeline.Event{Body: b})
			}()
		}
	})

	t.Run("drops the oldest events from memory and reports a gap", func(t *testing.T) {
		l := newLog(t, &timeline.Options{MemoryBytes: 64 << 10})
		const events, size = 1000, 1000
		for range events {
			l.Append(textEvent(bytes.Repeat([]byte("x"), size)))
		}
		got := l.EventsSince(0)
		wantContiguous(t, got, 0, events)
		data, gaps := textAndGaps(got)
		if len(gaps) != 1 || gaps[0].From != 1 || gaps[0].Bytes+int64(len(data)) != events*size {
			t.Errorf("got %d bytes and %+v, want %d in all", len(data), gaps, events*size)
		}
		if len(data) < 40_000 || len(data) > 64<<10 {
			t.Errorf("got %d bytes in memory", len(data))
		}
		wantContiguous(t, readUpTo(t, l, 0, events), 0, events)

		// A cursor inside the lost part: its size is known roughly.
		_, gaps = textAndGaps(l.EventsSince(500))
		if want := gaps[0].To - 500; gaps[0].From != 501 || gaps[0].Bytes < int64(want)*size || gaps[0].Bytes > int64(want)*size*11/10 {
			t.Errorf("got %+v, want about %d bytes", gaps[0], want*size)
		}
	})

	t.Run("keeps the newest event whatever its size", func(t *testing.T) {
		l := newLog(t, &timeline.Options{MemoryBytes: 1 << 10})
		l.Append(textEvent([]byte("a")))
		l.Append(timeline.Event{Body: timeline.NewImageDisplay("image/png", make([]byte, 1<<20), "", "")})
		wantContiguous(t, l.EventsSince(0), 0, 2)
		if n := len(l.EventsSince(1)); n != 1 {
			t.Errorf("got %d events after the first, want the image", n)
		}
	})
}

func TestFollow(t *testing.T) {
	t.Run("replays everything from the files", func(t *testing.T) {
		l := newLog(t, &timeline.Options{MemoryBytes: 32 << 10, Dir: t.TempDir()})
		var want []byte
		const events = 5000
		for i := range events {
			data := fmt.Appendf(nil, "line %d %s\n", i, strings.Repeat("x", i%300))
			want = append(want, data...)
			l.Append(textEvent(data))
		}
		for _, after := range []timeline.Seq{0, 1, 2500, events - 1} {
			got := readUpTo(t, l, after, events)
			wantContiguous(t, got, after, events)
			data, gaps := textAndGaps(got)
			if len(gaps) > 0 || !bytes.HasSuffix(want, data) || after == 0 && len(data) != len(want) {
				t.Errorf("after %d: got %d bytes, gaps %v", after, len(data), gaps)
			}
		}
		if _, gaps := textAndGaps(l.EventsSince(0)); len(gaps) != 1 {
			t.Errorf("got gaps %v from memory, want one", gaps)
		}
	})

	t.Run("skips and repeats nothing while files restart", func(t *testing.T) {
		const events = 5000
		l := newLog(t, &timeline.Options{Dir: t.TempDir(), FileBytes: 64 << 10, MemoryBytes: 16 << 10})
		go func() {
			for i := range events {
				l.Append(textEvent(fmt.Appendf(nil, "%04d %s\n", i, strings.Repeat("x", 494))))
			}
		}()
		var followers sync.WaitGroup
		for range 4 {
			followers.Go(func() {
				last := timeline.Seq(0)
				for e := range l.Follow(t.Context(), 0) {
					switch b := e.Body.(type) {
					case timeline.Gap:
						if b.From != last+1 || b.To != e.Seq {
							t.Errorf("got the gap %+v behind %d", b, last)
						}
					case timeline.Text:
						if e.Seq != last+1 || !strings.HasPrefix(string(b.Data), fmt.Sprintf("%04d ", e.Seq-1)) {
							t.Errorf("got event %d, %.10q, behind %d", e.Seq, b.Data, last)
						}
					}
					if last = e.Seq; last == events {
						return
					}
				}
			})
		}
		followers.Wait()
	})

	t.Run("yields past events, then live ones", func(t *testing.T) {
		eachLogKind(t, timeline.Options{}, func(t *testing.T, l *timeline.Log) {
			l.Append(textEvent([]byte("past")))
			next, stop := iter.Pull(l.Follow(t.Context(), 0))
			defer stop()
			if e, ok := next(); !ok || e.Seq != 1 {
				t.Fatalf("got %v, %v", e, ok)
			}
			go l.Append(textEvent([]byte("live")))
			if e, ok := next(); !ok || e.Seq != 2 {
				t.Fatalf("got %v, %v", e, ok)
			}
		})
	})

	t.Run("ends with its context and with the log", func(t *testing.T) {
		eachLogKind(t, timeline.Options{}, func(t *testing.T, l *timeline.Log) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan int)
			follow := func(ctx context.Context) {
				n := 0
				for range l.Follow(ctx, 0) {
					n++
				}
				ended <- n
			}
			go follow(ctx)
			cancel()
			<-ended
			go follow(t.Context())
			l.Append(textEvent([]byte("a")))
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if n := <-ended; n != 1 {
				t.Errorf("got %d events, want 1", n)
			}
			l.Append(textEvent([]byte("b"))) // has no effect
			wantContiguous(t, l.EventsSince(0), 0, 2)
		})
	})

	t.Run("a slow reader gets a gap and never blocks Append", func(t *testing.T) {
		l := newLog(t, &timeline.Options{MemoryBytes: 64 << 10})
		l.Append(textEvent([]byte("first")))
		next, stop := iter.Pull(l.Follow(t.Context(), 0))
		defer stop()
		first, _ := next()
		for range 10_000 {
			l.Append(textEvent(bytes.Repeat([]byte("x"), 100)))
		}
		events := []timeline.Event{first}
		for events[len(events)-1].Seq < l.LastSeq() {
			e, _ := next()
			events = append(events, e)
		}
		wantContiguous(t, events, 0, l.LastSeq())
		if _, gaps := textAndGaps(events); len(gaps) != 1 {
			t.Errorf("got gaps %v, want one", gaps)
		}
	})

	t.Run("many appenders and followers agree", func(t *testing.T) {
		const appenders, each, followers = 8, 2000, 6
		eachLogKind(t, timeline.Options{MemoryBytes: 64 << 10}, func(t *testing.T, l *timeline.Log) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var all sync.WaitGroup
			for range followers {
				after := timeline.Seq(rand.IntN(each))
				all.Go(func() {
					var events []timeline.Event
					for e := range l.Follow(ctx, after) {
						events = append(events, e)
						if e.Seq == appenders*each {
							break
						}
					}
					if err := seqError(events, after, appenders*each); err != nil {
						t.Error(err)
					}
				})
			}
			for a := range appenders {
				all.Go(func() {
					for i := range each {
						l.Append(timeline.Event{Turn: uint64(a), Body: timeline.Text{Data: fmt.Appendf(nil, "%d\n", i)}})
					}
				})
			}
			all.Wait()
			if l.OutputPath() == "" {
				return
			}
			// The disk has everything, in the order of each appender.
			next := make([]int, appenders)
			for _, e := range readUpTo(t, l, 0, l.LastSeq()) {
				if want := fmt.Sprintf("%d\n", next[e.Turn]); string(e.Body.(timeline.Text).Data) != want {
					t.Fatalf("appender %d: got %q, want %q", e.Turn, e.Body.(timeline.Text).Data, want)
				}
				next[e.Turn]++
			}
		})
	})
}

func TestLogFiles(t *testing.T) {
	t.Run("every body survives the events file", func(t *testing.T) {
		bodies := []timeline.Body{
			timeline.Text{Stream: timeline.Stderr, Data: []byte("a\x00\xff")},
			timeline.Text{Data: []byte("2"), Kind: timeline.TextResult},
			timeline.Text{Stream: timeline.Stderr, Data: []byte("E"), Kind: timeline.TextTraceback},
			timeline.Display{Data: map[string][]byte{"image/png": {1, 0xff}, "text/plain": []byte("p")}, Meta: []byte(`{"a":1}`), ID: "fig", Update: true, Result: true, Title: "t"},
			timeline.OutputCleared{Wait: true},
			timeline.TurnStarted{Input: []byte("1+1"), InputBytes: 3, Author: "ada"},
			timeline.TurnEnded{Outcome: "error", Name: "ValueError", Message: "m", Prompt: ">>> ", Elapsed: -5},
			timeline.InputRequested{Prompt: "p", Kind: "line", Terminal: true, Reader: "cat"},
			timeline.InputRequested{Kind: "line", Terminal: true, Reader: "top", Raw: true, Polls: true},
			timeline.InputRequested{Kind: timeline.InputKindPermission, PermissionID: 3, Denied: timeline.AccessDenied{Op: "write", Path: "/p", ChildProgram: "sh"}},
			timeline.AccessDenied{Op: "connect", Host: "h:1", ChildProgram: "curl"},
			timeline.AccessGranted{Write: "/p", Host: "h", Always: true, Author: "ada"}, timeline.AccessGranted{Read: "/r"},
			timeline.InputRequestEnded{Request: 7},
			timeline.InputLine{Prompt: "p", Text: "t", Author: "ada"},
			timeline.InputLine{Text: "<Down>", Author: "ada", Keys: true},
			timeline.Interrupt{Level: 2, Author: "ada"},
			timeline.Progress{Progress: 0.5, Total: -1e300, Message: "m"},
			timeline.Preparation{Name: "w", Message: "m", Done: -5, Total: 1 << 40},
			timeline.Notice{Message: "n"},
			timeline.WorkerStarted{Worker: "python"},
			timeline.WorkerExited{Reason: "r", ExitCode: -1, Signal: "SIGKILL", Message: "m", Clean: true, LastLine: "l", PeakRSSBytes: 1 << 40},
		}
		l := newLog(t, &timeline.Options{MemoryBytes: 1, Dir: t.TempDir()})
		var want []timeline.Event
		for i, b := range bodies {
			want = append(want, l.Append(timeline.Event{Generation: uint64(i), Turn: 1 << 60, BetweenTurns: i%2 == 0, Body: b}))
		}
		l.Append(textEvent([]byte("kept in memory\n")))
		l.Sync()
		for i, e := range readUpTo(t, l, 0, l.LastSeq())[:len(want)] {
			if e.Line == 0 {
				t.Errorf("%T has no line", e.Body)
			}
			if !e.At.Equal(want[i].At) {
				t.Errorf("got time %v, want %v", e.At, want[i].At)
			}
			e.At, e.Line = want[i].At, 0
			if got, want := fmt.Sprintf("%#v", e), fmt.Sprintf("%#v", want[i]); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	})

	t.Run("typed keys do not end a line of the output", func(t *testing.T) {
		dir := t.TempDir()
		l := newLog(t, &timeline.Options{Dir: dir})
		for _, b := range []timeline.Body{
			timeline.Text{Data: []byte("pick: ")}, timeline.InputRequested{Prompt: "pick: ", Kind: "line", Terminal: true, Raw: true},
			timeline.InputLine{Text: "<Down><Enter>", Keys: true}, timeline.InputLine{Keys: true, Secret: true}, timeline.Text{Data: []byte("second\n")},
			timeline.Text{Data: []byte("name? ")}, timeline.InputRequested{Prompt: "name? ", Kind: "line"}, timeline.InputLine{Prompt: "name? ", Text: "Ada"}, timeline.Text{Data: []byte("hello\n")},
		} {
			l.Append(timeline.Event{Turn: 1, Body: b})
		}
		l.Sync()
		got, err := os.ReadFile(filepath.Join(dir, timeline.OutputName))
		if want := "pick: second\nname? \nhello\n"; err != nil || string(got) != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	})

	t.Run("contain no secret input", func(t *testing.T) {
		dir := t.TempDir()
		l := newLog(t, &timeline.Options{Dir: dir})
		l.Append(timeline.Event{Body: timeline.InputLine{Prompt: "Password: ", Text: "hunter2", Secret: true}})
		l.Sync()
		if s := fmt.Sprint(l.EventsSince(0)); strings.Contains(s, "hunter2") {
			t.Errorf("memory contains it: %s", s)
		}
		for _, name := range []string{"events", "output.txt"} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || bytes.Contains(data, []byte("hunter2")) {
				t.Errorf("%s: %q, %v", name, data, err)
			}
		}
	})

	t.Run("are readable by their user only", func(t *testing.T) {
		dir := t.TempDir()
		newLog(t, &timeline.Options{Dir: dir})
		for _, name := range []string{"events", "output.txt"} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
	})

	t.Run("restart when full and contain the newest events", func(t *testing.T) {
		dir := t.TempDir()
		const limit, events = 64 << 10, 450
		l := newLog(t, &timeline.Options{Dir: dir, FileBytes: limit, MemoryBytes: 16 << 10})
		for i := range events {
			l.Append(textEvent(fmt.Appendf(nil, "%04d %s\n", i, strings.Repeat("x", 494))))
			l.Sync()
			if n := l.LineCount(); n > limit/500 {
				t.Fatalf("got %d lines in a file of %d bytes", n, limit)
			}
		}
		for _, name := range []string{"events", "output.txt"} {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() > limit {
				t.Errorf("%s: %d bytes, %v", name, info.Size(), err)
			}
		}
		got := readUpTo(t, l, 0, events)
		wantContiguous(t, got, 0, events)
		data, gaps := textAndGaps(got)
		if len(gaps) != 1 || gaps[0].From != 1 || gaps[0].Bytes+int64(len(data)) != events*500 || len(data) < 16<<10 {
			t.Errorf("got %d bytes and gaps %+v, want the newest and %d in all", len(data), gaps, events*500)
		}
		onDisk := timeline.Seq(0)
		for e := range timeline.ReadFile(dir) {
			if onDisk != 0 && e.Seq != onDisk+1 {
				t.Fatalf("the file has %d behind %d", e.Seq, onDisk)
			}
			onDisk = e.Seq
		}
		if onDisk != events {
			t.Errorf("the file ends with %d, want %d", onDisk, events)
		}
		n := l.LineCount()
		lines, err := l.Lines(1, n)
		if err != nil || len(lines) != n || !strings.HasPrefix(lines[0], "[gap: this file had reached its limit of 66 KB: earlier output") || !strings.HasPrefix(lines[n-1], "0449 x") {
			t.Errorf("got %.100q to %.100q, %v", lines[0], lines[n-1], err)
		}
		// An Omitted names the lines where the omitted events really are.
		for _, e := range l.Window(0, 1000, 1000) {
			if e.Line == 0 {
				continue
			}
			lines, err := l.Lines(e.Line, e.Line)
			if b, ok := e.Body.(timeline.Text); ok && (err != nil || !strings.Contains(lines[0]+"\n", string(b.Data))) {
				t.Errorf("event %d is not in line %d: %q, %v", e.Seq, e.Line, lines, err)
			}
		}
	})

	t.Run("an event larger than the limit ends them", func(t *testing.T) {
		l := newLog(t, &timeline.Options{Dir: t.TempDir(), FileBytes: 10_000})
		l.Append(textEvent([]byte("before\n")))
		l.Append(timeline.Event{Body: timeline.NewImageDisplay("image/png", make([]byte, 20_000), "", "")})
		l.Append(textEvent([]byte("after\n")))
		l.Sync()
		wantContiguous(t, readUpTo(t, l, 0, 3), 0, 3)
		n := l.LineCount()
		last, err := l.Lines(n, n)
		if err != nil || len(last) != 1 || !strings.HasPrefix(last[0], "[gap: this file has reached its limit") {
			t.Errorf("got %q, %v", last, err)
		}
		if l.OutputPath() == "" {
			t.Error("the full file is no longer named")
		}
	})
}

func TestOutputLines(t *testing.T) {
	t.Run("Grep searches long lines to their end", func(t *testing.T) {
		l, err := timeline.New(&timeline.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		long := strings.Repeat("語", 100_000) // its runes straddle every buffer boundary
		l.Append(timeline.Event{Body: timeline.Text{Data: []byte("first\n" + long + "needle" + long + " end\nneedle\n" + long + "\nlast needle\n")}})
		for pattern, want := range map[string][]int{
			"needle": {2, 3, 5}, "^needle": {3}, "needle$": {3, 5}, " end$": {2}, "^first$": {1}, "語needle語": {2}, "^語+$": {4}, "nothing": nil,
		} {
			found, err := l.Grep(regexp.MustCompile(pattern), 10)
			if err != nil {
				t.Fatal(err)
			}
			var numbers []int
			for _, line := range found {
				numbers = append(numbers, line.Number)
				if line.Number == 2 && pattern == "needle" && (!strings.HasPrefix(line.Text, "…") || strings.Count(line.Text, "needle") != 1 || len(line.Text) > 5000) {
					t.Errorf("got %d bytes, want the text around the match", len(line.Text))
				}
				if line.Number == 2 && pattern == " end$" && !strings.HasSuffix(line.Text, " end") {
					t.Errorf("got %q, want the end of the line", line.Text)
				}
			}
			if !slices.Equal(numbers, want) {
				t.Errorf("%s: got lines %v, want %v", pattern, numbers, want)
			}
		}
	})

	t.Run("Lines and Grep read the rendered output", func(t *testing.T) {
		l := newLog(t, &timeline.Options{Dir: t.TempDir()})
		for i := range 20_000 {
			l.Append(textEvent(fmt.Appendf(nil, "50%%\r\x1b[31mline %d\x1b[0m\n", i+1)))
		}
		l.Append(textEvent([]byte("unfinished")))
		for _, c := range []struct{ from, to, want int }{{1, 1, 1}, {15_000, 15_002, 3}, {19_999, 30_000, 2}, {30_000, 30_001, 0}} {
			got, err := l.Lines(c.from, c.to)
			if err != nil || len(got) != c.want {
				t.Fatalf("%+v: got %d lines, %v", c, len(got), err)
			}
			for i, s := range got {
				if want := fmt.Sprintf("line %d", c.from+i); s != want {
					t.Errorf("got %q, want %q", s, want)
				}
			}
		}
		if n := l.LineCount(); n != 20_000 {
			t.Errorf("got %d lines, want 20000: an unfinished one does not count", n)
		}
		l.Append(timeline.Event{Body: timeline.TurnEnded{}})
		if got, err := l.Lines(20_001, 20_001); err != nil || len(got) != 1 || got[0] != "unfinished" {
			t.Errorf("got %q, %v: want the line that was finished by the end of the turn", got, err)
		}
		found, err := l.Grep(regexp.MustCompile(`^line 1234\d$`), 5)
		if err != nil || len(found) != 5 || found[0] != (timeline.Line{Number: 12340, Text: "line 12340"}) {
			t.Errorf("got %v, %v", found, err)
		}
		if _, err := l.Lines(0, 1); err == nil {
			t.Error("line 0 was read")
		}
		if _, err := newLog(t, nil).Lines(1, 1); err != timeline.ErrNoOutput {
			t.Errorf("got %v, want ErrNoOutput", err)
		}
	})

	t.Run("a very long line stays one line", func(t *testing.T) {
		l := newLog(t, &timeline.Options{Dir: t.TempDir()})
		for range 100 {
			l.Append(textEvent(bytes.Repeat([]byte("é"), 4000)))
		}
		l.Append(textEvent([]byte("\nnext\n")))
		got, err := l.Lines(1, 5)
		if err != nil || len(got) != 2 || got[1] != "next" || len(got[0]) != 64<<10 {
			t.Errorf("got %d lines, %v", len(got), err)
		}
	})
}
