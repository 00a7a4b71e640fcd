// Package text formats text for users: shortened text, quoted names, sizes, durations and counts.
// It also measures how similar two names are, and compiles patterns on their first use. It starts
// no goroutines.
package text

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Shorten returns s, or its first max characters and "…".
func Shorten(s string, max int) string {
	if utf8.RuneCountInString(s) <= max {
		return s
	}
	return string([]rune(s)[:max]) + "…"
}

// Fit returns s in at most max characters; the last one is "…" if something is left out.
func Fit(s string, max int) string {
	if utf8.RuneCountInString(s) <= max {
		return s
	}
	return Shorten(s, max-1)
}

// ShortenStart returns s, or "…" and its last max characters.
func ShortenStart(s string, max int) string {
	if utf8.RuneCountInString(s) <= max {
		return s
	}
	runes := []rune(s)
	return "…" + string(runes[len(runes)-max:])
}

// ShortenBytes returns s, or its first max bytes without invalid UTF-8, and "…".
func ShortenBytes(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return Truncate(s, max) + "…"
}

// Truncate returns the first max bytes of s without invalid UTF-8, such as half a character. It adds no
// mark if something is left out.
func Truncate(s string, max int) string {
	return strings.ToValidUTF8(s[:min(len(s), max)], "")
}

// OneLine returns s with one space between its words.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Bytes formats a measured size in decimal units, rounded: "512 bytes", "1.2 KB", "117 KB".
func Bytes(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d bytes", n)
	}
	v, unit := float64(n)/1000, "KB"
	for _, next := range []string{"MB", "GB", "TB"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, next
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f %s", v, unit)
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}

// BinaryBytes formats a limit in the units in which users set it: "512 MiB", "8 GiB", "10.5 GiB".
func BinaryBytes(n int64) string {
	unit, name := int64(1<<20), "MiB"
	if n >= 1<<30 && (n%(1<<30) == 0 || n >= 10<<30) {
		unit, name = 1<<30, "GiB"
	}
	if n%unit == 0 || n/unit >= 100 {
		return fmt.Sprintf("%d %s", n/unit, name)
	}
	return fmt.Sprintf("%.1f %s", float64(n)/float64(unit), name)
}

// Duration formats a time in one unit: "24 h", "10 min", "90 s", "1.5 s".
func Duration(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
}

// DurationWords formats a time of whole hours or minutes for a sentence: "24 hours", "15 minutes". Smaller
// units are dropped.
func DurationWords(d time.Duration) string {
	n, unit := int(d/time.Minute), "minute"
	if d >= time.Hour {
		n, unit = int(d/time.Hour), "hour"
	}
	return Count(n, unit)
}

// CompactDuration formats a time as a flag takes it, without parts that are zero at the end: "1h30m".
func CompactDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Count returns a number with its noun, in the plural if it is not 1: "1 line", "48,211 lines".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return groupDigits(n) + " " + noun + "s"
}

// groupDigits formats a number with commas.
func groupDigits(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Pattern returns a function that compiles a regular expression in its first call, and panics if it
// is invalid. A process that never uses the pattern, such as a worker's monitor, saves its memory
// and time. In the code of each caller, its closures would be compiled again.
//
//go:noinline
func Pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
