package cmdkit

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// A UsageError describes a mistake in the command line.
type UsageError struct{ message string }

// Error returns the message.
func (e *UsageError) Error() string { return e.message }

// UsageErrorf returns a UsageError with a formatted message.
//
// Errors are rare and callers many, so a copy in each would only make programs larger.
//
//go:noinline
func UsageErrorf(format string, args ...any) error {
	return &UsageError{message: fmt.Sprintf(format, args...)}
}

// ErrorLine returns an error as one line. The line lacks the program's name, which the caller prints
// before it. The error may quote names that code has made, so the line is made safe for a terminal.
func ErrorLine(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "supervisor: "), "daemon: ")
	return PlainLine(strings.NewReplacer("\n", "; ", "\t", " ").Replace(text))
}

// NewFlags returns a flag set that prints nothing.
func NewFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// ParseFlags parses args and returns mistakes as a UsageError.
func ParseFlags(f *flag.FlagSet, args []string) error {
	err := f.Parse(args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	command, _, _ := strings.Cut(f.Name(), " ")
	if command == "repl" {
		command = ""
	}
	return UsageErrorf("%s (see repl help%s)", rewordFlagError(f, err), strings.TrimSuffix(" "+command, " "))
}

// interpreterFlagHints maps options of python and R that people type by habit to hints for repl.
var interpreterFlagHints = map[string]string{
	"v": "repl version prints the version",
	"f": "to run a file, give its name without an option",
}

// rewordFlagError rewords an error of package flag.
func rewordFlagError(f *flag.FlagSet, err error) string {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var known []string
		f.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
		text = "unknown option " + OptionName(name)
		if equivalent, ok := interpreterFlagHints[name]; ok && f.Name() == "repl" {
			return text + "; " + equivalent
		}
		if n := renamedFlag(name, known); n != "" {
			return text + "; did you mean " + OptionName(n) + "?"
		}
		if n := NearestName(name, known); n != "" && len(name) > 1 {
			return text + "; did you mean " + OptionName(n) + "?"
		}
		return text
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return OptionName(name) + " needs a value"
	}
	return text
}

// OptionName returns an option as people type it.
func OptionName(name string) string {
	if len(name) == 1 && name != "r" { // --r names an interpreter, like --python
		return "-" + name
	}
	return "--" + name
}

// ParseInterspersed parses flags in any position and returns the remaining arguments.
func ParseInterspersed(f *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := ParseFlags(f, args); err != nil {
			return nil, err
		}
		if args = f.Args(); len(args) == 0 {
			return words, nil
		}
		words, args = append(words, args[0]), args[1:]
	}
}

// RequireNoArgs refuses arguments after the flags.
func RequireNoArgs(f *flag.FlagSet) error {
	if f.NArg() > 0 {
		return UsageErrorf("%s takes no argument %q", f.Name(), f.Arg(0))
	}
	return nil
}

// NearestName returns the name most similar to a misspelled one, or "" if none is close. Among
// equally close names it prefers one of the same length, because letters are easily swapped.
func NearestName(name string, names []string) string {
	best, least := "", 3 // a word with three or more wrong letters is another word
	for _, n := range names {
		d := text.Distance(name, n)
		if d < least || d == least && best != "" && len(n) == len(name) && len(best) != len(name) {
			best, least = n, d
		}
	}
	return best
}

// IsFlagSet reports whether a flag was given.
func IsFlagSet(f *flag.FlagSet, name string) bool {
	set := false
	f.Visit(func(one *flag.Flag) { set = set || one.Name == name })
	return set
}

// RenamedFlags maps each flag that was renamed before the first release to its current name. Older
// notes and scripts still contain the old ones.
func RenamedFlags() map[string]string {
	return map[string]string{
		"accept":         "confirm-write",
		"alive":          "silence-timeout",
		"allow":          "allow-tool",
		"approve":        "auto-approve",
		"ask":            "ask-permission",
		"call":           "tool",
		"cull-idle":      "session-idle-timeout",
		"deny":           "deny-tool",
		"files":          "open-files",
		"hold":           "exclusive",
		"home":           "home-access",
		"idle":           "session-idle-timeout",
		"idle-exit":      "daemon-idle-timeout",
		"image-size":     "max-image-size",
		"keep":           "keep-on-shutdown",
		"keyboard":       "lock-holder",
		"login":          "login-env",
		"no":             "deny",
		"place":          "remote",
		"places":         "remotes",
		"readable":       "allow-read",
		"restart-keeps":  "keep-on-restart",
		"sandbox-accept": "sandbox-fallback",
		"servers":        "mcp-servers",
		"to":             "format",
		"turn-limit":     "turn-timeout",
		"warm-with":      "warm-code",
		"writable":       "allow-write",
	}
}

// renamedFlag returns the current name of a renamed flag if it is among the known ones, or "".
func renamedFlag(name string, known []string) string {
	if now := RenamedFlags()[name]; slices.Contains(known, now) {
		return now
	}
	return ""
}
