package console

import (
	"strings"
	"testing"
)

func TestOutputTracker(t *testing.T) {
	t.Run("tracks the cursor column", func(t *testing.T) {
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
			{"combining accents", "e\u0301x", 2},
			{"wide characters", "中文", 4},
			{"emoji", "🐍", 2},
			{"emoji outside the emoji blocks", "✅⚡⌚🟢🫠", 10},
			{"over the margin", strings.Repeat("x", 145), 145},
			{"invalid UTF-8", "\xff\xfe", 2},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				s := &outputTracker{out: &strings.Builder{}}
				s.Write([]byte(test.written))
				if got := s.cursorColumn(); got != test.want {
					t.Errorf("after %q the column is %d, want %d", test.written, got, test.want)
				}
			})
		}
	})

	t.Run("recognizes a prompt that is already shown", func(t *testing.T) {
		s := &outputTracker{out: &strings.Builder{}}
		s.Write([]byte("before\nname? "))
		for prompt, want := range map[string]bool{"name? ": true, "first line\nname? ": true, "": true, "other? ": false} {
			if got := s.endsWith(prompt); got != want {
				t.Errorf("endsWith(%q) is %v, want %v", prompt, got, want)
			}
		}
	})

	t.Run("switches off modes that programs left on", func(t *testing.T) {
		tests := []struct{ name, written, want, atEnd string }{
			{"text", "abc\n", "", ""},
			{"a program that cleans up", "\x1b[?1049h\x1b[?1h\x1b=\x1b[?25lx\x1b[?25h\x1b[?1l\x1b>\x1b[?1049l", "", ""},
			{"a killed program", "\x1b[?1049h\x1b[?1;25l\x1b[?1006;1000hx", "\x1b[?1049l\x1b[?1006l\x1b[?1000l\x1b[?25h", ""},
			{"a hidden cursor", "\x1b[?25l", "\x1b[?25h", ""},
			{"wrapping", "\x1b[?7l", "\x1b[?7h", ""},
			{"keypad mode", "\x1b=", "\x1b>", ""},
			{"a colour", "\x1b[31mred", "", "\x1b[0m"},
			{"a colour that was reset", "\x1b[31mred\x1b[0m", "", ""},
			{"modifyOtherKeys is not a colour", "\x1b[>4;1m", "\x1b[>4;0m", ""},
			{"modifyOtherKeys that was reset", "\x1b[>4;2m\x1b[>4;0m\x1b[>4;2m\x1b[>4m", "", ""},
			{"pushed keyboard flags", "\x1b[>1u\x1b[>5u\x1b[<u\x1b[>1u", "\x1b[<2u", ""},
			{"popped keyboard flags", "\x1b[>1u\x1b[>5u\x1b[<2u\x1b[<u", "", ""},
			{"an unknown mode", "\x1b[?777h", "", ""},
			{"text that looks like a mode", "\x1b]0;[?25l\a[?25l", "", ""},
		}
		for _, test := range tests {
			for name, size := range map[string]int{"": len(test.written), ", byte by byte": 1} {
				t.Run(test.name+name, func(t *testing.T) {
					var shown strings.Builder
					s := &outputTracker{out: &shown}
					for i := 0; i < len(test.written); i += size {
						s.Write([]byte(test.written[i:min(len(test.written), i+size)]))
					}
					for _, step := range []struct {
						all  bool
						want string
					}{{false, test.want}, {true, test.atEnd}, {true, ""}} {
						shown.Reset()
						if s.resetModes(step.all); shown.String() != step.want {
							t.Errorf("after %q resetModes writes %q, want %q", test.written, shown.String(), step.want)
						}
					}
				})
			}
		}
	})
}
