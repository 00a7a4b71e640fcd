package discovery

import (
	"slices"
	"strconv"
	"strings"
)

// A Version holds the leading one to three numbers of a runtime's version. nil means unknown.
type Version []int

func (v Version) String() string {
	words := make([]string, len(v))
	for i, n := range v {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ".")
}

// StartsWith reports whether v starts with the numbers of want.
func (v Version) StartsWith(want Version) bool {
	return len(v) >= len(want) && slices.Equal(v[:len(want)], want)
}

// ParseVersion parses "3", "3.12" or "3.12.1"; the result is nil for anything else.
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
