package text

import "strings"

// JoinNames joins names with commas and a conjunction, as in "a, b and c". Without names it returns
// none.
func JoinNames(names []string, and, none string) string {
	switch n := len(names); n {
	case 0:
		return none
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " " + and + " " + names[n-1]
	}
}
