package vt

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A recording is the output of a real program, and what tmux showed after it. See testdata/record.py.
type recording struct {
	output      []byte
	returns     bool // newlines return to the first column
	row, column int
	lines       []string
}

// newRecordings returns the recordings by name.
func newRecordings(t testing.TB) map[string]recording {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "*.raw"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("found no recordings: %v", err)
	}
	recordings := make(map[string]recording)
	for _, path := range paths {
		var r recording
		if r.output, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(strings.TrimSuffix(path, ".raw") + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), "\n")
		if _, err := fmt.Sscan(lines[0], &r.row, &r.column); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		r.returns = strings.HasSuffix(lines[0], " return")
		r.lines = lines[1:]
		recordings[strings.TrimSuffix(filepath.Base(path), ".raw")] = r
	}
	return recordings
}

// replay writes a recording in chunks of size bytes.
func (r recording) replay(size int) *Emulator {
	s := New(40, 120, nil)
	s.SetReturnOnNewline(r.returns)
	for b := r.output; len(b) > 0; {
		n := min(size, len(b))
		s.Write(b[:n])
		b = b[n:]
	}
	return s
}

func TestRecordings(t *testing.T) {
	t.Parallel()
	for name, r := range newRecordings(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1 << 20, 1, 7} {
				s := r.replay(size)
				checkScreen(t, s)
				got := s.Snapshot()
				for i := range max(len(got.Lines), len(r.lines)) {
					var mine, tmux string
					if i < len(got.Lines) {
						mine = got.Lines[i]
					}
					if i < len(r.lines) {
						tmux = r.lines[i]
					}
					if mine != tmux {
						t.Errorf("in chunks of %d bytes, row %d is\n%s\nwant\n%s", size, i, mine, tmux)
					}
				}
				if got.CursorRow != r.row || got.CursorCol != r.column {
					t.Errorf("the cursor is at %d, %d, want %d, %d", got.CursorRow, got.CursorCol, r.row, r.column)
				}
			}
		})
	}
}

// A person sees at once which entry of a menu is chosen.
func TestRecordings_Highlights(t *testing.T) {
	t.Parallel()
	recordings := newRecordings(t)
	for name, want := range map[string]string{
		"curses":         "gamma",
		"dialog":         "c|third|<  OK  >",
		"prompt-toolkit": "apricot|tool bar",
		"textual":        "gamma",
		"vim":            "lines.txt [+]|lines.txt [+]",
	} {
		var got []string
		for _, h := range recordings[name].replay(1 << 20).Snapshot().Highlights {
			got = append(got, h.Text)
		}
		if text := strings.Join(got, "|"); text != want {
			t.Errorf("%s: got %q, want %q", name, text, want)
		}
	}
}

func FuzzWrite(f *testing.F) {
	for _, r := range newRecordings(f) {
		f.Add(r.output[:min(len(r.output), 2000)], uint16(40), uint16(120), uint16(100))
	}
	f.Add([]byte("a日\x1b[99999999b\x1b[?1049h\x1b[2;1r\x1b[L\x1b[4h本\u0301\x1b[T\x1b[99@\x1b[99P\x1b[?47l"), uint16(3), uint16(4), uint16(5))
	f.Fuzz(func(t *testing.T, output []byte, rows, columns, split uint16) {
		rows, columns = rows%60, columns%140
		var whole, parts strings.Builder
		a := New(int(rows), int(columns), func(b []byte) { whole.Write(b) })
		a.Write(output)
		checkScreen(t, a)
		b := New(int(rows), int(columns), func(b []byte) { parts.Write(b) })
		at := min(int(split), len(output))
		b.Write(output[:at])
		b.Snapshot()
		b.Write(output[at:])
		checkScreen(t, b)
		if first, second := fmt.Sprintf("%+v", a.Snapshot()), fmt.Sprintf("%+v", b.Snapshot()); first != second || whole.String() != parts.String() {
			t.Errorf("split at %d:\n%s%q\nwant\n%s%q", at, second, parts.String(), first, whole.String())
		}
		if !strings.HasPrefix(a.CursorLine(), strings.TrimRight(a.TextBeforeCursor(), " ")) {
			t.Errorf("%q does not begin with %q", a.CursorLine(), a.TextBeforeCursor())
		}
		a.Resize(int(columns), int(rows))
		checkScreen(t, a)
		a.Write(output)
		checkScreen(t, a)
	})
}

// The promise is 80 MB/s for text, plain or colored.
func BenchmarkWrite_Plain(b *testing.B) {
	benchmarkWrite(b, "line: the quick brown fox jumps over the lazy dog and runs away\r\n")
}

func BenchmarkWrite_Colored(b *testing.B) {
	benchmarkWrite(b, "\x1b[1;32mINFO\x1b[0m \x1b[38;5;7mthe quick brown fox\x1b[39m jumps \x1b[48;2;1;2;3mover\x1b[m the lazy dog\r\n")
}

func BenchmarkWrite_Wide(b *testing.B) {
	benchmarkWrite(b, "日本語のテキスト naïve café\r\n")
}

func BenchmarkWrite_Erase(b *testing.B) { benchmarkWrite(b, "\x1b[H\x1b[2J") }

func BenchmarkWrite_Vim(b *testing.B) { benchmarkWrite(b, string(newRecordings(b)["vim"].output)) }

func benchmarkWrite(b *testing.B, text string) {
	output := []byte(strings.Repeat(text, 1+(64<<10)/len(text)))
	s := New(40, 120, nil)
	b.SetBytes(int64(len(output)))
	b.ReportAllocs()
	for b.Loop() {
		s.Write(output)
	}
}

// The promise is 2 ms for a full screen.
func BenchmarkSnapshot(b *testing.B) {
	s := New(50, 200, nil)
	s.Write([]byte(strings.Repeat("\x1b[44mtext \x1b[m日e\u0301 ", 1000)))
	b.ReportAllocs()
	for b.Loop() {
		s.Snapshot()
	}
}
