package discovery

import (
	"slices"
	"strconv"
	"strings"
)

// A Version is the leading numbers of a runtime's version, one to three of them.
// nil is an unknown one.
type Version []int

func (v Version) String() string {
	words := make([]string, len(v))
	for i, n := range v {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ".")
}

// StartsWith reports whether the numbers of want are the first ones of v.
func (v Version) StartsWith(want Version) bool {
	return len(v) >= len(want) && slices.Equal(v[:len(want)], want)
}

// ParseVersion reads "3", "3.12" or "3.12.1"; nil for anything else.
func ParseVersion(text string) Version {
	words := strings.Split(text, ".")
	if len(words) > 3 {
		return nil
	}
	v := make(Version, len(words))
	for i, word := range words {
		n, err := strconv.ParseUint(word, 10, 16)
		if err != nil {
			return nil
		}
		v[i] = int(n)
	}
	return v
}
