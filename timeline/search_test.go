package timeline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// appendRandomText appends events with lines that end in later events, are overwritten, or
// never end.
func appendRandomText(l *Log, r *rand.Rand, n int) {
	words := []string{"apple", "pear\n", "fig ", "\n", "\r", "\x1b[31m", "APPLE pie\n", "語", "plum\nquince", "\b\b"}
	turn := uint64(1)
	for range n {
		e := Event{Turn: turn, Silent: turn%5 == 4}
		switch k := r.IntN(16); k {
		case 0:
			turn++
			e.Turn, e.Silent = turn, turn%5 == 4
			e.Body = TurnStarted{Input: []byte("x = 1\nprint('apple')\n")}
		case 1:
			e.Body = TurnEnded{Outcome: OutcomeOK}
		case 2:
			e.Body = Notice{Message: "an apple is noticed"}
		case 3:
			e.Body = InputRequested{Prompt: "apple? ", Kind: InputKindLine}
		case 4:
			e.Body = InputLine{Prompt: "apple? ", Text: "my apple"}
		case 5:
			e.Body = Display{Data: map[string][]byte{"text/plain": []byte("two\napples")}}
		default:
			var b []byte
			for range r.IntN(12) {
				b = append(b, words[r.IntN(len(words))]...)
			}
			e.Body = Text{Data: b}
			if r.IntN(4) == 0 { // a split character or sequence belongs to one stream
				e.Body = Text{Stream: Stderr, Data: []byte(words[r.IntN(5)])}
			}
		}
		l.Append(e)
	}
}

func mustPattern(t *testing.T, p Pattern, err error) Pattern {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func checkSearch(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 5))
	o := Options{MemoryBytes: 1 << (12 + r.IntN(8))}
	if seed%3 > 0 {
		o.Dir = t.TempDir()
	}
	l, err := New(&o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	appendRandomText(l, r, 600)
	p, err := LiteralPattern("Apple")
	p = mustPattern(t, p, err)
	late := time.Now().Add(time.Hour)
	want, _, over := l.runSearch(lineSearch{pattern: p, limit: 1e6, bytesLeft: 1 << 40, deadline: late}, Cursor{})
	if !over || len(want) == 0 {
		t.Fatalf("got %d matches, over: %v", len(want), over)
	}
	for range 4 {
		var got []Match
		var at Cursor
		for calls := 0; ; calls++ {
			if calls > 10_000 {
				t.Fatalf("seed %d: the search does not end: at %+v", seed, at)
			}
			// One call covers more than any line here has, so that no line is searched in parts.
			found, next, over := l.runSearch(lineSearch{pattern: p, limit: 1 + r.IntN(5), bytesLeft: 10_000 + r.Int64N(20_000), deadline: late}, at)
			got = append(got, found...)
			if over {
				break
			}
			at = next
		}
		if o.Dir == "" && len(got) != len(want) || o.Dir != "" && !reflect.DeepEqual(got, want) {
			for i := range min(len(got), len(want)) {
				if got[i] != want[i] {
					t.Fatalf("seed %d: match %d: got %+v, want %+v", seed, i, got[i], want[i])
				}
			}
			t.Fatalf("seed %d: got %d matches, want %d", seed, len(got), len(want))
		}
	}
	if o.Dir == "" {
		return
	}
	lines, err := l.Grep(regexp.MustCompile("(?i)apple"), 1e6)
	if err != nil {
		t.Fatal(err)
	}
	var shown []Line
	for _, m := range want {
		if !m.Input && m.Line > 0 {
			shown = append(shown, Line{m.Line, m.Text})
		}
	}
	if !reflect.DeepEqual(shown, lines) {
		t.Fatalf("seed %d: got %d lines, the output file has %d", seed, len(shown), len(lines))
	}
}

func TestSearch(t *testing.T) {
	t.Run("finds each line once, in parts of any size", func(t *testing.T) {
		for seed := range uint64(40) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				checkSearch(t, seed)
			})
		}
	})

	t.Run("is bounded and resumes at its cursor", func(t *testing.T) {
		l, err := New(&Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		line := append(bytes.Repeat([]byte("x"), 999), '\n')
		for range 1000 {
			l.Append(Event{Turn: 1, Body: Text{Data: bytes.Repeat(line, 32)}})
		}
		l.Append(Event{Turn: 1, Body: Text{Data: []byte("needle")}})
		p, err := LiteralPattern("NEEDLE")
		p = mustPattern(t, p, err)
		calls, at := 0, Cursor{}
		for {
			calls++
			found, next, over := l.Search(p, at, 10)
			if over {
				if len(found) != 1 || found[0].Text != "needle" {
					t.Errorf("got %+v", found)
				}
				break
			}
			if next.Seq <= at.Seq || len(found) > 0 {
				t.Fatalf("from %+v to %+v with %+v", at, next, found)
			}
			at = next
		}
		if calls < 4 {
			t.Errorf("32 MB took %d calls", calls)
		}
	})

	t.Run("terminates even if a line does not end", func(t *testing.T) {
		l, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3000 {
			l.Append(Event{Turn: 1, Body: Text{Data: fmt.Appendf(nil, "\r%d %%%s", i, strings.Repeat(" ", 100))}})
		}
		p, err := RegexpPattern(`\d+ %`)
		p = mustPattern(t, p, err)
		at := Cursor{}
		for range 10_000 {
			_, next, over := l.runSearch(lineSearch{pattern: p, limit: 10, bytesLeft: 500, deadline: time.Now().Add(time.Hour)}, at)
			if over {
				return
			}
			at = next
		}
		t.Errorf("the search does not end: at %+v", at)
	})

	t.Run("finds no secret and redacts the lines around it", func(t *testing.T) {
		l, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Append(Event{Turn: 1, Body: TurnStarted{Input: []byte("login('correct horse')")}})
		l.Append(Event{Turn: 1, Body: Text{Data: []byte("with correct horse\n")}})
		l.Append(Event{Turn: 1, Body: InputLine{Secret: true, Text: "correct horse"}})
		if err := l.AddSecret("correct horse"); err != nil {
			t.Fatal(err)
		}
		l.Append(Event{Turn: 1, Body: Text{Data: []byte("again correct horse\n")}})
		for _, text := range []string{"correct horse", "rect ho"} {
			p, err := LiteralPattern(text)
			if found, _, _ := l.Search(mustPattern(t, p, err), Cursor{}, 10); len(found) > 0 {
				t.Errorf("%s: got %+v", text, found)
			}
		}
		p, err := RegexpPattern(`^(with|again|login)`)
		found, _, _ := l.Search(mustPattern(t, p, err), Cursor{}, 10)
		if len(found) != 3 || !found[0].Input {
			t.Fatalf("got %+v", found)
		}
		for _, m := range found {
			if !strings.Contains(m.Text, "[secret]") || strings.Contains(m.Text, "horse") {
				t.Errorf("got %q", m.Text)
			}
		}
		for _, turn := range l.Turns(0, 0, false, 10) {
			if strings.Contains(turn.Code, "horse") {
				t.Errorf("the turn index has %q", turn.Code)
			}
		}
	})

	t.Run("refuses excessive patterns and shortens long matches", func(t *testing.T) {
		for _, expr := range []string{"(", strings.Repeat("a", 1001), "(.{1000}|.{1000})", `\1`} {
			if _, err := RegexpPattern(expr); err == nil {
				t.Errorf("%.20q is accepted", expr)
			}
		}
		for _, text := range []string{"", "a\nb", strings.Repeat("a", 1001)} {
			if _, err := LiteralPattern(text); err == nil {
				t.Errorf("%.20q is accepted", text)
			}
		}
		l, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Append(Event{Turn: 1, Body: Text{Data: []byte(strings.Repeat("ab", 4000) + "Ⱥ needle" + strings.Repeat("c", 4000) + "\n")}})
		for _, p := range []func() (Pattern, error){
			func() (Pattern, error) { return LiteralPattern("NEEDLE") },
			func() (Pattern, error) { return RegexpPattern("n.+?e") },
		} {
			pattern, err := p()
			found, _, over := l.Search(mustPattern(t, pattern, err), Cursor{}, 10)
			if len(found) != 1 || !over || !strings.Contains(found[0].Text, "needle") || len(found[0].Text) > maxMatchBytes+10 {
				t.Errorf("got %+v", found)
			}
		}
	})
}
