package edit

import (
	"unicode"

	"golang.org/x/text/width"
)

const zeroWidthJoiner = '\u200d'

// Cells returns the number of a terminal's cells that r takes.
func Cells(r rune) int {
	switch {
	case r < ' ' || r >= 0x7f && r < 0xa0, unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// clusterEnd returns the end of what a reader takes for one character and that begins at i: a
// letter with its accents, two halves of a flag, or emoji that are joined.
func clusterEnd(text []rune, i int) int {
	if i >= len(text) {
		return len(text)
	}
	first := text[i]
	i++
	if isFlagHalf(first) && i < len(text) && isFlagHalf(text[i]) {
		i++
	}
	for i < len(text) && first != '\n' && text[i] != '\n' && text[i] != '\t' {
		switch {
		case text[i-1] == zeroWidthJoiner, isModifier(text[i]), text[i] >= ' ' && Cells(text[i]) == 0 && !isControl(text[i]):
			i++
		default:
			return i
		}
	}
	return i
}

// clusterBegin returns the beginning of the cluster before i.
func clusterBegin(text []rune, i int) int {
	from := i - 1
	for from > 0 && from > i-64 && text[from-1] != '\n' {
		from-- // far enough for each real cluster
	}
	at := max(0, from)
	for at < i {
		end := clusterEnd(text, at)
		if end >= i {
			return at
		}
		at = end
	}
	return max(0, i-1)
}

func isFlagHalf(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// isModifier reports whether r is the colour of a skin for the emoji before it.
func isModifier(r rune) bool { return r >= 0x1f3fb && r <= 0x1f3ff }

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }
