package timeline

import (
	"iter"
	"math/rand/v2"
	"strings"
)

// Large text often is mostly what other text had as well: the page of a widget has libraries of
// hundreds of kilobytes in it, and little of its own. So the events file has such data in parts,
// and equal parts once. Where a part ends depends on the 64 bytes before that alone, so that
// stretches that are equal are divided alike, whatever stands around them.
const (
	divideFrom = 64 << 10 // smaller data is not divided
	minPart    = 4 << 10
	meanBits   = 14 // a part has 16 KiB more than minPart in the mean
	maxPart    = 64 << 10
)

// gear has a random number for each byte. The numbers may be any: a file is divided by one
// program.
var gear = func() (table [256]uint64) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range table {
		table[i] = random.Uint64()
	}
	return table
}()

// isDivided reports whether data is text that is large enough. Pictures are compressed, so nothing
// in them is equal.
func isDivided(mime string, data []byte) bool {
	isText := strings.HasPrefix(mime, "text/") || strings.HasSuffix(mime, "json") || strings.HasSuffix(mime, "xml") || strings.HasSuffix(mime, "javascript")
	return isText && len(data) >= divideFrom
}

// divide yields the parts of data, in order.
func divide(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			n := partLength(data)
			if !yield(data[:n:n]) {
				return
			}
			data = data[n:]
		}
	}
}

// partLength returns the length of the part with which data begins.
func partLength(data []byte) int {
	most := min(len(data), maxPart)
	if most <= minPart {
		return most
	}
	hash := uint64(0)
	for i := minPart - 64; i < most; i++ {
		hash = hash<<1 + gear[data[i]]
		if i >= minPart && hash>>(64-meanBits) == 0 {
			return i
		}
	}
	return most
}
