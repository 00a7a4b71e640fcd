package terminal

import (
	"strings"
	"testing"
)

func TestScreen_KnowsTheColumn(t *testing.T) {
	tests := []struct {
		name, written string
		want          int
	}{
		{"nothing", "", 0},
		{"text", "abc", 3},
		{"a whole line", "abc\n", 0},
		{"the line after", "abc\nde", 2},
		{"carriage return", "abc\rx", 1},
		{"backspace", "abc\b", 2},
		{"tab", "ab\tc", 9},
		{"colours", "\x1b[1;31mab\x1b[0m", 2},
		{"title", "\x1b]0;title\ax", 1},
		{"a string ended by ESC \\", "\x1b_Gdata\x1b\\x", 1},
		{"accents as characters of their own", "e\u0301x", 2},
		{"wide characters", "中文", 4},
		{"emoji", "🐍", 2},
		{"emoji outside of the blocks of emoji", "✅⚡⌚🟢🫠", 10},
		{"beyond the margin", strings.Repeat("x", 45), 5},
		{"invalid UTF-8", "\xff\xfe", 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &screen{out: &strings.Builder{}, width: func() int { return 40 }}
			s.Write([]byte(test.written))
			if got := s.column(); got != test.want {
				t.Errorf("after %q the column is %d, want %d", test.written, got, test.want)
			}
		})
	}
}

// Asking the terminal would hang with one that does not answer.
func TestScreen_AnswersWhereTheCursorIsByItself(t *testing.T) {
	var shown strings.Builder
	var answer string
	s := &screen{out: &shown, width: func() int { return 80 }, answer: func(a string) { answer = a }}
	s.Write([]byte("name? "))
	s.Write([]byte(whereIsCursor))
	if answer != "\x1b[1;7R" {
		t.Errorf("got answer %q, want column 7", answer)
	}
	if shown.String() != "name? " {
		t.Errorf("the terminal got %q, want the text only", shown.String())
	}
}

func TestScreen_KnowsAPromptThatIsShown(t *testing.T) {
	s := &screen{out: &strings.Builder{}, width: func() int { return 80 }}
	s.Write([]byte("before\nname? "))
	for prompt, want := range map[string]bool{"name? ": true, "first line\nname? ": true, "": true, "other? ": false} {
		if got := s.shows(prompt); got != want {
			t.Errorf("shows(%q) is %v, want %v", prompt, got, want)
		}
	}
}

// A prompt that is removed behind a question leaves the question on the screen.
func TestScreen_ALineThatEndsInItsRowLeavesTheOutput(t *testing.T) {
	var shown strings.Builder
	s := &screen{out: &shown, width: func() int { return 80 }}
	s.begin()
	s.Write([]byte(">>> "))
	s.wrote([]byte("before\nwho? "))
	s.Write([]byte("before\nwho? >>> "))
	s.leaveRow()
	s.Write([]byte("\x1b[6G\x1b[J"))
	s.Write([]byte("\n \b"))
	if !s.shows("who? ") || s.column() != 5 || strings.HasSuffix(shown.String(), "\n \b") {
		t.Errorf("the row is left: %q, column %d", shown.String(), s.column())
	}
	s.Write([]byte("\n"))
	if s.column() != 0 || !strings.HasSuffix(shown.String(), "\n") {
		t.Errorf("the next line end is lost: %q", shown.String())
	}
}
