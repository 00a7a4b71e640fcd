package render_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

var update = flag.Bool("update", false, "rewrite the views in testdata/golden")

// TestRenderGolden renders the events of each file in testdata/golden. parseScript defines the
// words of the scripts.
func TestRenderGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Files) != 2 || a.Files[0].Name != "events" || a.Files[1].Name != "view" {
				t.Fatal("want the files events and view")
			}
			events, opts := parseScript(t, string(a.Files[0].Data))
			got := render.Events(events, opts).Text()
			if got != "" && !strings.HasSuffix(got, "\n") {
				got += "(no newline)\n"
			}
			if *update {
				a.Files[1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := string(a.Files[1].Data); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// parseScript parses events from lines: a word, then quoted strings or numbers.
func parseScript(t *testing.T, s string) (events []timeline.Event, opts *render.Options) {
	t.Helper()
	opts = &render.Options{}
	var turn, generation, silent uint64 = 0, 1, 1 << 63
	between := false
	add := func(b timeline.Body) {
		events = append(events, timeline.Event{
			Seq: timeline.Seq(len(events) + 1), Generation: generation, Turn: turn, BetweenTurns: between, Silent: turn == silent && !between, Body: b,
		})
	}
	lines := bufio.NewScanner(strings.NewReader(s))
	for lines.Scan() {
		word, args := splitScriptLine(t, lines.Text())
		arg := func(i int) string {
			if i < len(args) {
				return args[i]
			}
			return ""
		}
		number := func(i int) int {
			n, err := strconv.Atoi(arg(i))
			if err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			return n
		}
		switch word {
		case "max":
			opts.MaxChars = number(0)
		case "path":
			opts.OutputPath = arg(0)
		case "self":
			opts.Self = arg(0)
		case "turn":
			turn, between = turn+1, false
			add(timeline.TurnStarted{Author: arg(0), Input: []byte(arg(1))})
		case "end":
			add(timeline.TurnEnded{Outcome: "ok"})
			between = true
		case "out":
			add(timeline.Text{Data: []byte(arg(0))})
		case "err":
			add(timeline.Text{Stream: timeline.Stderr, Data: []byte(arg(0))})
		case "outs": // "format" from to: one line for each number
			for i := number(1); i <= number(2); i++ {
				add(timeline.Text{Data: fmt.Appendf(nil, arg(0), i)})
			}
		case "times": // "text" n: n times
			for range number(1) {
				add(timeline.Text{Data: []byte(arg(0))})
			}
		case "line": // of the output file: where the last event begins
			events[len(events)-1].Line = number(0)
		case "wait":
			add(timeline.InputRequested{Prompt: arg(0), Kind: "line"})
		case "input":
			add(timeline.InputLine{Prompt: arg(0), Text: arg(1), Author: arg(2)})
		case "keys":
			add(timeline.InputLine{Text: arg(0), Author: arg(1), Keys: true, Secret: arg(0) == ""})
		case "secret":
			add(timeline.InputLine{Prompt: arg(0), Secret: true, Author: arg(1)})
		case "image": // "title" "source"
			add(timeline.NewImageDisplay("image/png", newPNG(), arg(1), arg(0)))
		case "redraw":
			d := timeline.NewImageDisplay("image/png", newPNG(), arg(1), arg(0))
			d.Update = true
			add(d)
		case "display", "update", "value": // "id" and pairs of "type" "data"
			d := timeline.Display{ID: arg(0), Update: word == "update", Result: word == "value", Data: map[string][]byte{}}
			for i := 1; i+1 < len(args); i += 2 {
				d.Data[args[i]] = []byte(args[i+1])
			}
			add(d)
		case "clear":
			add(timeline.OutputCleared{})
		case "silent": // the turn that comes next
			silent = turn + 1
		case "notice":
			add(timeline.Notice{Message: arg(0)})
		case "interrupt":
			add(timeline.Interrupt{Level: 1, Author: arg(0)})
		case "start":
			generation++
			add(timeline.WorkerStarted{Worker: "python"})
		case "died": // "reason" "last line" peak
			b := timeline.WorkerExited{Reason: arg(0), LastLine: arg(1)}
			if len(args) > 2 {
				b.PeakRSSBytes = int64(number(2))
			}
			add(b)
		case "gap":
			add(timeline.Gap{From: 1, To: 5, Bytes: int64(number(0))})
		case "elided": // first last bytes
			add(timeline.Omitted{FirstLine: number(0), LastLine: number(1), Bytes: int64(number(2))})
		default:
			t.Fatalf("unknown word in %q", lines.Text())
		}
	}
	return events, opts
}

// splitScriptLine splits a line of a script; arguments may be quoted as in Go.
func splitScriptLine(t *testing.T, line string) (word string, args []string) {
	word, rest, _ := strings.Cut(line, " ")
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			quoted, _, _ = strings.Cut(rest, " ")
			args = append(args, quoted)
		} else {
			arg, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			args = append(args, arg)
		}
		rest = rest[len(quoted):]
	}
	return word, args
}

// newPNG returns a PNG of 3 x 2 pixels.
func newPNG() []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func TestRender(t *testing.T) {
	t.Run("joins adjacent text and keeps images whole", func(t *testing.T) {
		events, opts := parseScript(t, "turn\nout a\\n\nout b\nimage fig\nout c")
		got := render.Events(events, opts)
		if len(got.Parts) != 3 || got.Parts[1].Image == nil || !bytes.Equal(got.Parts[1].Image.Data, newPNG()) {
			t.Fatalf("got %+v", got.Parts)
		}
		if got.Parts[0].Text != "a\\nb\n" || got.Parts[2].Text != "c" || got.Omitted {
			t.Errorf("got %+v", got.Parts)
		}
		if want := utf8.RuneCountInString(got.Parts[0].Text + got.Parts[2].Text); got.Chars != want {
			t.Errorf("got %d characters, want %d", got.Chars, want)
		}
	})

	t.Run("renders no events as nothing", func(t *testing.T) {
		if got := render.Events(nil, nil); len(got.Parts) != 0 || got.Text() != "" || got.Chars != 0 {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("stays within its budget and shows the end", func(t *testing.T) {
		for _, width := range []int{1, 60, 5000, 300_000} {
			for _, most := range []int{1000, 20_000} {
				var events []timeline.Event
				for i := range 3_000_000 / (width + 7) {
					events = append(events, textEvent(fmt.Appendf(nil, "%06d%s\n", i, strings.Repeat("é", width/2))))
				}
				events = append(events, textEvent([]byte("ValueError: the end\n")))
				got := render.Events(events, &render.Options{MaxChars: most})
				if got.Chars > most || got.Chars < most/2 && width < 100 || !got.Omitted {
					t.Errorf("width %d: got %d characters of %d, omitted %v", width, got.Chars, most, got.Omitted)
				}
				if s := got.Text(); !strings.HasPrefix(s, "000000") || !strings.HasSuffix(s, "ValueError: the end\n") || strings.Count(s, "elided …\n") > 1 {
					t.Errorf("width %d: got %.100q … %.100q", width, s, s[max(0, len(s)-100):])
				}
			}
		}
	})

	// A progress bar whose middle is omitted shows its last state, as a terminal would. A line
	// that was not redrawn says how much is missing.
	t.Run("hides omitted states of a progress bar", func(t *testing.T) {
		const all = "100%|##########| this is all of it"
		bar := func(n int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, "\r%3d%%|%s| it=%d of %d", i*100/n, strings.Repeat("#", i*10/n), i, n)
			}
			return b.String() + "\r" + all
		}
		long := strings.Repeat("x", 300_000)
		for _, test := range []struct{ name, print, want string }{
			{"a bar", "before\n" + bar(20_000) + "\nafter\n", "before\n" + all + "\nafter\n"},
			{"a bar that goes on", "before\n" + bar(20_000), "before\n" + all},
			{"two bars", bar(9000) + "\n" + bar(9000) + "\n", "… "},
			{"a long line", "before\n" + long + "\r\nafter\n", "… "},
			{"a long line behind a bar", "before\n\r1%\r2%" + long + "\nafter\n", "… "},
		} {
			for _, chunk := range []int{17, 4096, 1 << 20} {
				l, err := timeline.New(&timeline.Options{Dir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				for rest := []byte(test.print); len(rest) > 0; {
					n := min(len(rest), chunk)
					l.Append(timeline.Event{Turn: 1, Body: timeline.Text{Data: rest[:n]}})
					rest = rest[n:]
				}
				l.Sync()
				got := render.Events(l.Window(0, 64<<10, 64<<10), nil).Text()
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				if elided := strings.Contains(got, " elided"); got != test.want && (test.want != "… " || !elided) {
					t.Errorf("%s in pieces of %d: got %.200q … %.100q, want %q", test.name, chunk, got, got[max(0, len(got)-100):], test.want)
				}
			}
		}
	})

	t.Run("keeps only the last of many updates", func(t *testing.T) {
		show := func(id, text string, update bool) timeline.Event {
			return timeline.Event{Turn: 1, Body: timeline.Display{Data: map[string][]byte{"text/plain": []byte(text)}, ID: id, Update: update}}
		}
		events := []timeline.Event{show("bar", "0 %", false), show("never", "of an id that never was", true)}
		for i := range 10_000 {
			events = append(events, show("bar", fmt.Sprintf("%d of 10000", i+1), true))
		}
		events = append(events, timeline.Event{Turn: 1, Body: timeline.OutputCleared{Wait: true}})
		if got := render.Events(events, nil).Text(); got != "of an id that never was\n10000 of 10000\n" {
			t.Errorf("got %.200q", got)
		}
	})
}

func textEvent(data []byte) timeline.Event {
	return timeline.Event{Turn: 1, Body: timeline.Text{Data: data}}
}

func BenchmarkRender128KiB(b *testing.B) {
	var events []timeline.Event
	for i := range 2000 {
		events = append(events, textEvent(fmt.Appendf(nil, "%06d %s\n", i, strings.Repeat("x", 57))))
	}
	b.SetBytes(128 << 10)
	b.ReportAllocs()
	for b.Loop() {
		render.Events(events, nil)
	}
}

// FuzzRender renders the same bytes, cut into events in two ways: the renderings must be equal
// and within the budget.
func FuzzRender(f *testing.F) {
	f.Add([]byte("a\r\x1b[2K€\b\xff\nb\nb\nb\nb\nb\n"), []byte("x\n"), uint8(1), uint16(10))
	f.Add([]byte(strings.Repeat("line\n€\n", 50)), []byte("\xe2\x82\n"), uint8(2), uint16(100))
	f.Add([]byte(strings.Repeat("Traceback (most recent call last):\n  File \"/usr/lib/python3/x.py\", line 1\n    x\n", 9)), []byte("a\nb\na\nb\na\nb\na\nb\n"), uint8(2), uint16(100))
	f.Add([]byte(strings.Repeat("€", 500)), []byte{}, uint8(5), uint16(50))
	f.Fuzz(func(t *testing.T, out, err []byte, size uint8, most uint16) {
		render := func(size int) render.Rendering {
			events := []timeline.Event{{Turn: 1, Body: timeline.TurnStarted{}}}
			for s, data := range [][]byte{out, err, out} {
				for len(data) > 0 {
					n := min(size, len(data))
					events = append(events, timeline.Event{Turn: 1, Body: timeline.Text{Stream: timeline.Stream(s % 2), Data: data[:n]}})
					data = data[n:]
				}
			}
			events = append(events, timeline.Event{Turn: 1, Body: timeline.TurnEnded{}})
			return render.Events(events, &render.Options{MaxChars: int(most) + 1, FoldFrames: true})
		}
		whole, cut := render(1<<30), render(int(size)+1)
		if whole.Text() != cut.Text() {
			t.Errorf("got %q in chunks, %q at once", cut.Text(), whole.Text())
		}
		if !utf8.ValidString(whole.Text()) {
			t.Errorf("got invalid UTF-8: %q", whole.Text())
		}
		if most > 500 && whole.Chars > int(most)+1 {
			t.Errorf("got %d characters of %d", whole.Chars, most+1)
		}
	})
}
