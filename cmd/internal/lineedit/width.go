package lineedit

import (
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// maxCluster bounds the code points of one user-perceived character.
const maxCluster = 64

// FirstCluster returns the length in bytes and the width in cells of the first user-perceived
// character of line. Examples are a letter with its accents, a syllable, a flag, or joined emoji. A
// control character has no width.
func FirstCluster(line []byte) (length, cells int) {
	if len(line) > 1 && line[0] < utf8.RuneSelf && line[1] < utf8.RuneSelf || len(line) == 1 {
		if isControl(rune(line[0])) {
			return 1, 0
		}
		return 1, 1
	}
	cluster, _, cells, _ := uniseg.FirstGraphemeCluster(line, -1)
	return len(cluster), cells
}

// clusterAt returns the end of the cluster that starts at i, and its width in cells.
func clusterAt(text []rune, i int) (end, cells int) {
	if i+1 >= len(text) || text[i] < utf8.RuneSelf && text[i+1] < utf8.RuneSelf {
		_, cells = FirstCluster([]byte(string(text[i:min(i+1, len(text))])))
		return min(i+1, len(text)), cells
	}
	line := []byte(string(text[i:min(len(text), i+maxCluster)]))
	length, cells := FirstCluster(line)
	return i + utf8.RuneCount(line[:length]), cells
}

// clusterEnd returns the end of the cluster that starts at i.
func clusterEnd(text []rune, i int) int {
	end, _ := clusterAt(text, i)
	return end
}

// clusterBegin returns the start of the cluster before i.
func clusterBegin(text []rune, i int) int {
	at := i - 1
	for at > 0 && text[at] >= utf8.RuneSelf {
		at-- // before ASCII there is always a boundary
	}
	for at = max(0, at); at < i; {
		end := clusterEnd(text, at)
		if end >= i {
			return at
		}
		at = end
	}
	return max(0, i-1)
}

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }
