package keys

import "bytes"

// endOfInput is Ctrl-D, which is a line of its own at the start of a line.
const endOfInput = 0x04

// LineLength returns the length of the first line of typed keys, and of the Enter at its end. An
// Enter within a paste is text.
func LineLength(typed []byte) (n, enter int) {
	if len(typed) > 0 && typed[0] == endOfInput {
		return 1, 0
	}
	for i := 0; i < len(typed); i++ {
		switch {
		case bytes.HasPrefix(typed[i:], []byte(PasteStart)):
			paste := typed[i:]
			end, cut := bytes.Index(paste, []byte(PasteEnd)), bytes.Index(paste, []byte(PasteEndCut))
			if end < 0 || cut >= 0 && cut < end {
				end = cut
			}
			if end < 0 {
				return len(typed), 0
			}
			i += end + len(PasteEnd) - 1
		case typed[i] == '\r' || typed[i] == '\n':
			return i + 1, 1
		}
	}
	return len(typed), 0
}
