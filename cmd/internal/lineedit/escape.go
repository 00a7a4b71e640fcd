package lineedit

import "fmt"

// EscapeLength returns the length of the control sequence at the start of line, or 0.
func EscapeLength(line []byte) int {
	if len(line) < 2 || line[0] != '\x1b' {
		return 0
	}
	switch line[1] {
	case '[': // parameters, then one final byte
		for i := 2; i < len(line); i++ {
			if line[i] >= 0x40 && line[i] <= 0x7e {
				return i + 1
			}
		}
		return len(line)
	case ']', '_', 'P', '^', 'X': // a string, ended by BEL or ESC \
		for i := 2; i < len(line); i++ {
			if line[i] == '\a' {
				return i + 1
			}
			if line[i] == '\\' && line[i-1] == '\x1b' {
				return i + 1
			}
		}
		return len(line)
	}
	return 2
}

// moreLabel says how many completions are not shown.
func moreLabel(n int) string { return fmt.Sprintf("… %d more", n) }
