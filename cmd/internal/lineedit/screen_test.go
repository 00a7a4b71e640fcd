package lineedit

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
)

// A fakeTerminal emulates the parts of a terminal that the editor uses.
type fakeTerminal struct {
	cols, height   int
	grid           [][]string
	wrappedRows    []bool // of rows: the terminal itself wrapped to it
	history        [][]string
	wrappedHistory []bool
	y, x           int  // x is cols when the next character starts another row
	sumsCells      bool // it adds up the width of each code point, and ignores clusters
}

func newFakeTerminal(cols, height int) *fakeTerminal {
	t := &fakeTerminal{cols: cols, height: height}
	for range height {
		t.grid = append(t.grid, make([]string, cols))
	}
	t.wrappedRows = make([]bool, height)
	return t
}

func (t *fakeTerminal) Write(b []byte) (int, error) {
	for s := string(b); s != ""; {
		if n := EscapeLength([]byte(s)); n > 0 {
			t.applySequence(s[:n])
			s = s[n:]
			continue
		}
		n, cells := FirstCluster([]byte(s))
		if r, size := utf8.DecodeRuneInString(s); t.sumsCells && !isControl(r) {
			n = size
			_, cells = FirstCluster([]byte(s[:n]))
		}
		t.putCharacter(s[:n], cells)
		s = s[n:]
	}
	return len(b), nil
}

func (t *fakeTerminal) newRow(soft bool) {
	if t.y++; t.y == t.height {
		t.scrollRow()
		t.y--
	}
	t.wrappedRows[t.y] = soft
}

// scrollRow moves the first row into the scrollback.
func (t *fakeTerminal) scrollRow() {
	t.history, t.wrappedHistory = append(t.history, t.grid[0]), append(t.wrappedHistory, t.wrappedRows[0])
	t.grid, t.wrappedRows = append(t.grid[1:], make([]string, t.cols)), append(t.wrappedRows[1:], false)
}

func (t *fakeTerminal) putCharacter(c string, w int) {
	switch c {
	case "\r":
		t.x = 0
		return
	case "\n":
		t.newRow(false)
		return
	case "\b":
		t.x = max(0, min(t.x, t.cols-1)-1)
		return
	}
	if w == 0 {
		at := max(0, t.x-1)
		for at > 0 && t.grid[t.y][at] == "\x00" {
			at--
		}
		t.grid[t.y][at] += c
		return
	}
	if t.x+w > t.cols {
		t.x = 0
		t.newRow(true)
	}
	t.grid[t.y][t.x] = c
	for i := 1; i < w; i++ {
		t.grid[t.y][t.x+i] = "\x00" // the rest of a wide character
	}
	t.x += w
}

func (t *fakeTerminal) applySequence(s string) {
	n, err := strconv.Atoi(strings.Trim(s[2:len(s)-1], "?"))
	if err != nil {
		n = 1
	}
	switch s[len(s)-1] {
	case 'A':
		t.y = max(0, t.y-n)
	case 'B':
		t.y = min(t.height-1, t.y+n)
	case 'G':
		t.x = min(n, t.cols) - 1
	case 'H':
		t.y, t.x = 0, 0
	case 'K':
		clear(t.grid[t.y][min(t.x, t.cols-1):])
		t.wrappedRows[t.y] = t.wrappedRows[t.y] && t.x > 0
	case 'J':
		if t.y == 0 && t.x == 0 && n != 2 { // as tmux does
			for range t.height {
				if strings.Join(t.grid[0], "") == "" {
					break
				}
				t.scrollRow()
			}
		}
		from := t.y
		if n == 2 {
			from = -1
		}
		for y := range t.grid {
			if y > from {
				t.grid[y] = make([]string, t.cols)
			} else if y == from {
				clear(t.grid[y][min(t.x, t.cols-1):])
			}
		}
	}
}

// screenText returns the screen up to the last row that is not empty.
func (t *fakeTerminal) screenText() string {
	var rows []string
	for _, cells := range t.grid {
		var b strings.Builder
		for _, c := range cells {
			switch c {
			case "":
				b.WriteByte(' ')
			case "\x00":
			default:
				b.WriteString(c)
			}
		}
		rows = append(rows, strings.TrimRight(b.String(), " "))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// resize changes the size of the terminal, as tmux does. It rejoins the rows that it wrapped
// itself. Rows without room move into the scrollback, and come back from there.
func (t *fakeTerminal) resize(cols, height int) {
	rows, soft := append(t.history, t.grid...), append(t.wrappedHistory, t.wrappedRows...)
	y := len(t.history) + t.y
	for len(rows) > y+1 && strings.Join(rows[len(rows)-1], "") == "" {
		rows = rows[:len(rows)-1]
	}
	now := newFakeTerminal(cols, 0)
	for i := 0; i < len(rows); {
		var line []string
		at := -1
		for first := i; i < len(rows) && (i == first || soft[i]); i++ {
			if i == y {
				at = len(line) + t.x
			}
			line = append(line, rows[i]...)
		}
		for len(line) > 0 && line[len(line)-1] == "" {
			line = line[:len(line)-1]
		}
		if at >= 0 {
			now.y, now.x = len(now.grid)+at/cols, at%cols
		}
		for begin := 0; begin == 0 || begin < max(len(line), at+1); begin += cols {
			row := make([]string, cols)
			copy(row, line[min(begin, len(line)):])
			now.grid, now.wrappedRows = append(now.grid, row), append(now.wrappedRows, begin > 0)
		}
	}
	gone := max(0, len(now.grid)-height)
	if height < t.height { // the rows below the cursor go first
		gone = min(gone, max(0, now.y+1-height))
	}
	now.history, now.wrappedHistory = now.grid[:gone], now.wrappedRows[:gone]
	now.grid, now.wrappedRows, now.y, now.height, now.sumsCells = now.grid[gone:], now.wrappedRows[gone:], now.y-gone, height, t.sumsCells
	now.grid, now.wrappedRows = now.grid[:min(height, len(now.grid))], now.wrappedRows[:min(height, len(now.grid))]
	for len(now.grid) < height {
		now.grid, now.wrappedRows = append(now.grid, make([]string, cols)), append(now.wrappedRows, false)
	}
	*t = *now
}

// An editorTest simulates a user at a terminal with an editor.
type editorTest struct {
	*testing.T
	tty     *fakeTerminal
	painter *Painter
	editor  Editor
	history *History
	o       Options
	outcome KeyOutcome
}

func newEditorTest(t *testing.T, o Options, texts ...string) *editorTest {
	s := &editorTest{T: t, tty: newFakeTerminal(40, 12), history: NewHistory(100, texts...), o: o}
	s.painter = &Painter{Out: s.tty, Size: func() (int, int) { return s.tty.cols, s.tty.height }}
	s.editor.Begin(o, s.history)
	s.painter.Begin(s.editor.Frame(), 0)
	return s
}

// runeSource delivers the keys of a script, followed by silence.
type runeSource struct {
	runes        []rune
	goesQuiet    bool
	allAtOnce    bool // all keys of a script arrive at once,
	severalLines bool // and have several lines
}

// escapeRune stands for the Escape key, followed by silence.
const escapeRune = '⎋'

func (s *runeSource) next() (rune, error) {
	if len(s.runes) == 0 || s.goesQuiet {
		s.goesQuiet = false
		return 0, keys.ErrQuiet
	}
	r := s.runes[0]
	s.runes = s.runes[1:]
	if r == escapeRune {
		s.goesQuiet = true
		return '\x1b', nil
	}
	return r, nil
}

// typeKeys presses keys. After each it compares the screen with a complete redraw.
func (t *editorTest) typeKeys(keys string) {
	t.Helper()
	t.pressKeys(scriptedSource{&runeSource{runes: []rune(keys)}})
}

// sendKeys types all keys at once, like a program.
func (t *editorTest) sendKeys(keys string) {
	t.Helper()
	t.pressKeys(scriptedSource{&runeSource{runes: []rune(keys), allAtOnce: true}})
}

func (t *editorTest) pressKeys(source scriptedSource) {
	t.Helper()
	lines := strings.Contains(strings.TrimRight(string(source.runes), "\r"), "\r")
	source.severalLines = source.allAtOnce && lines
	for len(source.runes) > 0 {
		key, err := keys.ReadKey(source, t.editor.WantsEscape())
		if err != nil {
			t.Fatal(err)
		}
		t.outcome = t.editor.Press(key)
		if t.outcome == OutcomeAccept || t.outcome == OutcomeInterrupt {
			t.painter.Draw(t.editor.Frame())
			mark := ""
			if t.outcome == OutcomeInterrupt {
				mark = "^C"
			}
			t.painter.Finish(mark)
			return
		}
		t.painter.Draw(t.editor.Frame())
		t.compareScreens(key)
	}
}

func (t *editorTest) compareScreens(key keys.Key) {
	t.Helper()
	fresh := newFakeTerminal(t.tty.cols, t.tty.height)
	fresh.sumsCells = t.tty.sumsCells
	p := &Painter{Out: fresh, Size: t.painter.Size, top: t.painter.top}
	p.Begin(t.editor.Frame(), t.painter.start)
	if fresh.screenText() != t.tty.screenText() && t.painter.top == 0 || fresh.y != t.tty.y && t.painter.top == 0 || fresh.x%fresh.cols != t.tty.x%t.tty.cols {
		t.Fatalf("after %q the screen is\n%s\n(%d, %d), and drawn again\n%s\n(%d, %d)", key.Name+key.Text, t.tty.screenText(), t.tty.y, t.tty.x, fresh.screenText(), fresh.y, fresh.x)
	}
}
