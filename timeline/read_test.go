package timeline_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/timeline"
)

// readAll returns all events as a follower gets them.
func readAll(l *timeline.Log) []timeline.Event {
	var all []timeline.Event
	for e := range l.Follow(context.Background(), 0) {
		all = append(all, e)
		if e.Seq == l.LastSeq() {
			break
		}
	}
	return all
}

// comparableEvents returns events without fields that depend on where a gap was seen from.
func comparableEvents(events []timeline.Event) []timeline.Event {
	out := make([]timeline.Event, len(events))
	for i, e := range events {
		if g, ok := e.Body.(timeline.Gap); ok {
			e = timeline.Event{Seq: e.Seq, Body: timeline.Gap{From: g.From, To: g.To}}
		}
		e.Line, e.At = 0, e.At.Truncate(0)
		out[i] = e
	}
	return out
}

// appendRandomEvents appends n random events, in turns.
func appendRandomEvents(l *timeline.Log, r *rand.Rand, n int) {
	turn := uint64(0)
	for range n {
		e := timeline.Event{Generation: 1, Turn: turn, At: time.Unix(0, r.Int64N(1e15))}
		switch k := r.IntN(20); {
		case k == 0:
			turn++
			e.Turn, e.Body = turn, timeline.TurnStarted{Input: []byte(fmt.Sprintf("\n  run(%d)\nmore()", turn)), Author: "ada"}
		case k == 1:
			e.Body = timeline.TurnEnded{Outcome: timeline.OutcomeOK, Elapsed: time.Duration(turn) * time.Millisecond}
		case k == 2:
			e.Body = timeline.NewImageDisplay("image/png", bytes.Repeat([]byte{1}, r.IntN(20_000)), "", "")
		case k == 3:
			e.Body, e.BetweenTurns = timeline.Notice{Message: "note"}, true
		default:
			e.Body = timeline.Text{Data: bytes.Repeat([]byte("line\n"), r.IntN(300))}
		}
		l.Append(e)
	}
}

// randomLog returns a log whose events are in memory, on disk, or lost.
func randomLog(t *testing.T, r *rand.Rand) *timeline.Log {
	o := &timeline.Options{MemoryBytes: 1 << (10 + r.IntN(10))}
	if r.IntN(4) > 0 {
		o.Dir = t.TempDir()
		o.FileBytes = 1 << (13 + r.IntN(10))
	}
	l := newLog(t, o)
	appendRandomEvents(l, r, r.IntN(800))
	if r.IntN(2) == 0 {
		l.Sync()
	}
	if r.IntN(4) == 0 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// readInParts reads everything between two cursors in parts of random sizes and directions: it
// starts anywhere, and continues at either end.
func readInParts(l *timeline.Log, r *rand.Rand) []timeline.Event {
	first, last := timeline.Seq(1), timeline.Seq(0)
	if end := l.LastSeq(); end > 0 {
		last = timeline.Seq(r.Uint64N(uint64(end) + 1))
		first = last + 1
	}
	var all []timeline.Event
	for up, down := true, true; up || down; {
		s := timeline.ReadRange{MaxEvents: 1 + r.IntN(300), MaxBytes: 1 << r.IntN(20), MaxTypeBytes: 1 << 30}
		if down && (!up || r.IntN(2) == 0) {
			s.Before, s.Backward = first, true
			part := l.Read(s)
			if down = len(part) > 0 && first > 1; down {
				first = part[0].Seq
				if g, ok := part[0].Body.(timeline.Gap); ok {
					first = g.From
				}
				all = append(part, all...)
			}
			continue
		}
		s.After = last
		part := l.Read(s)
		if up = len(part) > 0; up {
			last = part[len(part)-1].Seq
			all = append(all, part...)
		}
	}
	return all
}

// mergeGaps merges adjacent gaps: a reader that starts inside a gap sees it as two.
func mergeGaps(events []timeline.Event) []timeline.Event {
	var out []timeline.Event
	for _, e := range comparableEvents(events) {
		if g, ok := e.Body.(timeline.Gap); ok && len(out) > 0 {
			if before, ok := out[len(out)-1].Body.(timeline.Gap); ok && before.To+1 == g.From {
				out[len(out)-1] = timeline.Event{Seq: g.To, Body: timeline.Gap{From: before.From, To: g.To}}
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

func checkReadInParts(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	l := randomLog(t, r)
	l.Sync() // events may move from memory to disk between two reads, but must not get lost
	want := mergeGaps(readAll(l))
	for range 3 {
		got := mergeGaps(readInParts(l, r))
		if len(got) != len(want) {
			t.Fatalf("seed %d: got %d events, want %d", seed, len(got), len(want))
		}
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("seed %d: event %d: got %+v, want %+v", seed, i, got[i], want[i])
			}
		}
	}
}

func TestRead(t *testing.T) {
	t.Run("parts of any size and direction make the whole timeline", func(t *testing.T) {
		for seed := range uint64(40) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				checkReadInParts(t, seed)
			})
		}
	})

	t.Run("stays within its bounds", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		l := newLog(t, &timeline.Options{Dir: t.TempDir(), MemoryBytes: 16 << 10})
		appendRandomEvents(l, r, 3000)
		for range 200 {
			s := timeline.ReadRange{Backward: r.IntN(2) == 0, MaxEvents: 1 + r.IntN(50), MaxBytes: int64(r.IntN(5000)), MaxTypeBytes: int64(r.IntN(3000))}
			s.After = timeline.Seq(r.IntN(3000))
			s.Before = s.After + timeline.Seq(1+r.IntN(200))
			got := l.Read(s)
			bytes := int64(0)
			for i, e := range got {
				if e.Seq <= s.After || e.Seq >= s.Before || i > 0 && e.Seq != got[i-1].Seq+1 {
					t.Fatalf("%+v: event %d after %d", s, e.Seq, got[max(0, i-1)].Seq)
				}
				switch b := e.Body.(type) {
				case timeline.Text:
					bytes += int64(len(b.Data))
				case timeline.Display:
					if bytes += b.TotalBytes(); b.TotalBytes() > s.MaxTypeBytes || len(b.Data)+len(b.Omitted) != 1 {
						t.Fatalf("%+v: a display of %d bytes, %v left out", s, b.TotalBytes(), b.Omitted)
					}
				}
			}
			if len(got) > s.MaxEvents || len(got) > 1 && bytes > s.MaxBytes || len(got) == 0 && s.Before > s.After+1 {
				t.Fatalf("%+v: got %d events of %d bytes", s, len(got), bytes)
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add(uint64(7))
	f.Fuzz(checkReadInParts)
}

// wantTurns summarizes all events as a reader would.
func wantTurns(events []timeline.Event) (turns []timeline.TurnSummary) {
	for _, e := range events {
		n := len(turns)
		if n == 0 || !e.BetweenTurns && turns[n-1].Turn != e.Turn {
			turns = append(turns, timeline.TurnSummary{Turn: e.Turn, Generation: e.Generation, First: e.Seq, At: e.At})
			n++
		}
		s := &turns[n-1]
		s.Last = e.Seq
		switch b := e.Body.(type) {
		case timeline.Text:
			s.Lines, s.Bytes = s.Lines+bytes.Count(b.Data, []byte("\n")), s.Bytes+int64(len(b.Data))
		case timeline.Display:
			s.Displays, s.Bytes = s.Displays+1, s.Bytes+b.TotalBytes()
		case timeline.TurnStarted:
			s.Author, s.Code, s.CodeLines = b.Author, fmt.Sprintf("run(%d)", e.Turn), 3
		case timeline.TurnEnded:
			s.Outcome, s.Elapsed = b.Outcome, b.Elapsed
		}
	}
	return turns
}

func TestTurns(t *testing.T) {
	t.Run("summarizes each turn as its events do", func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		l := newLog(t, &timeline.Options{Dir: t.TempDir(), MemoryBytes: 64 << 10})
		appendRandomEvents(l, r, 5000)
		want := wantTurns(readAll(l))
		if got := l.Turns(0, 0, false, 1e6); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %d turns, want %d: %+v", len(got), len(want), got[:3])
		}
		for range 300 {
			after := timeline.Seq(r.IntN(5000))
			before := after + timeline.Seq(r.IntN(3000))
			limit := 1 + r.IntN(20)
			backward := r.IntN(2) == 0
			var some []timeline.TurnSummary
			for _, s := range want {
				if s.Last > after && s.First < before {
					some = append(some, s)
				}
			}
			if backward {
				some = some[max(0, len(some)-limit):]
			}
			some = some[:min(limit, len(some))]
			if got := l.Turns(after, before, backward, limit); len(got)+len(some) > 0 && !reflect.DeepEqual(got, some) && before > 0 {
				t.Fatalf("%d to %d, %v, %d: got %+v, want %+v", after, before, backward, limit, got, some)
			}
		}
	})

	t.Run("rebuilds summaries that left memory from the file", func(t *testing.T) {
		for name, o := range map[string]*timeline.Options{"all on disk": {}, "a restarted file": {FileBytes: 700 << 10}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				o.Dir = t.TempDir()
				l := newLog(t, o)
				for turn := range uint64(40_000) {
					l.Append(timeline.Event{Generation: 1, Turn: turn + 1, At: time.Unix(int64(turn), 0), Body: timeline.TurnStarted{Input: []byte(fmt.Sprintf("\nrun(%d)\n\n", turn+1)), Author: "ada"}})
					l.Append(timeline.Event{Generation: 1, Turn: turn + 1, At: time.Unix(int64(turn), 0), Body: timeline.TurnEnded{Outcome: timeline.OutcomeOK, Elapsed: time.Duration(turn) * time.Millisecond}})
				}
				l.Sync()
				all := l.Turns(0, 0, false, 1e6)
				if n := len(all); o.FileBytes == 0 && n != 40_000 || n < 8192 || all[n-1].Turn != 40_000 {
					t.Fatalf("got %d turns, the last is %+v", n, all[n-1])
				}
				for i, s := range all {
					want := timeline.TurnSummary{
						Turn: s.Turn, Generation: 1, First: timeline.Seq(2*s.Turn - 1), Last: timeline.Seq(2 * s.Turn), At: time.Unix(int64(s.Turn-1), 0), Author: "ada",
						Code: fmt.Sprintf("run(%d)", s.Turn), CodeLines: 3, Outcome: timeline.OutcomeOK, Elapsed: time.Duration(s.Turn-1) * time.Millisecond,
					}
					if i > 0 && s.Turn != all[i-1].Turn+1 || !reflect.DeepEqual(s, want) && s.Code != "" {
						t.Fatalf("got %+v after %+v", s, all[max(0, i-1)])
					}
				}
				r := rand.New(rand.NewPCG(1, 9))
				for range 30 {
					want := all[r.IntN(len(all)-300):][:1+r.IntN(290)]
					first, last := want[0], want[len(want)-1]
					if got := l.Turns(first.First-1, last.Last+1, r.IntN(2) == 0, 300); !reflect.DeepEqual(got, want) {
						t.Fatalf("got %d turns of %d", len(got), len(want))
					}
					if got := l.Turns(0, last.Last+1, true, len(want)); !reflect.DeepEqual(got, want) {
						t.Fatalf("backward: got %d turns of %d", len(got), len(want))
					}
					if got := l.Turns(first.First-1, 0, false, len(want)); !reflect.DeepEqual(got, want) {
						t.Fatalf("forward: got %d turns of %d", len(got), len(want))
					}
					if got, ok := l.FirstTurnFrom(last.Turn); !ok || got.Turn != last.Turn || got.First != last.First {
						t.Fatalf("turn %d: got %+v", last.Turn, got)
					}
				}
				if got, ok := l.FirstTurnFrom(40_001); ok {
					t.Errorf("a turn that never existed: got %+v", got)
				}
			})
		}
	})
}
