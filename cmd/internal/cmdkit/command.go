package cmdkit

import (
	"flag"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// An Action runs a command with the arguments after its name. Its error is printed; for a
// *UsageError the exit status is 2.
type Action func(s Streams, args []string) (status int, err error)

// A CommandInfo describes repl itself or a subcommand. Help, shell completion, the manual page and
// the page of commands on the site are generated from it.
type CommandInfo struct {
	Name    string // "" is repl alone
	Args    string // shown after the flags; completion takes its placeholders from it
	Summary string // one line
	Details string // further facts, beyond the flags; may be ""
	Group   string
	Hidden  bool // only for other programs: no list shows it, but repl help NAME does

	// NewAction adds the flags with their descriptions, and returns the action to run after they
	// are parsed. It has no other effect.
	NewAction func(f *flag.FlagSet) Action

	// ArgValues returns the possible values of the argument CLIENT or TOPIC.
	ArgValues func() []string
}

// The groups of commands, in the order of the help.
const (
	GroupCode     = "Run code"
	GroupSessions = "Long-lived sessions"
	GroupAgents   = "Agents and editors"
	GroupMore     = "More"
)

// CommandGroups returns the groups in the order of the help.
func CommandGroups() []string { return []string{GroupCode, GroupSessions, GroupAgents, GroupMore} }

// FlagSet returns a new set of the command's flags, and its action.
func (c CommandInfo) FlagSet() (*flag.FlagSet, Action) {
	f := NewFlags(c.FullName())
	if c.Name != "" {
		f = NewFlags(c.Name)
	}
	return f, c.NewAction(f)
}

// FullName returns the command as it is typed: "repl exec".
func (c CommandInfo) FullName() string { return strings.TrimSpace("repl " + c.Name) }

// UsageLine returns the command with its arguments.
func (c CommandInfo) UsageLine() string {
	text := c.FullName()
	if len(c.FlagOptions()) > 0 {
		text += " [FLAG ...]"
	}
	return strings.TrimSpace(text + " " + c.Args)
}

// A FlagOption is a flag as the help shows it.
type FlagOption struct {
	Name     string
	Value    string // the placeholder; "" for a flag that has no value
	Optional bool   // the value may be omitted
	Usage    string
}

// FlagOptions returns the options of a command, by name.
func (c CommandInfo) FlagOptions() []FlagOption {
	f, _ := c.FlagSet()
	var all []FlagOption
	f.VisitAll(func(one *flag.Flag) { all = append(all, newFlagOption(one)) })
	return all
}

// newFlagOption parses the description of a flag: the placeholder in back quotes, then its effect.
// It adds the default, unless the description names it.
func newFlagOption(f *flag.Flag) FlagOption {
	o := FlagOption{Name: f.Name, Usage: f.Usage}
	if rest, ok := strings.CutPrefix(f.Usage, "`"); ok {
		o.Value, o.Usage, _ = strings.Cut(rest, "` ")
	}
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	o.Optional = ok && b.IsBoolFlag()
	value := f.DefValue
	if d, err := time.ParseDuration(value); err == nil && d >= time.Minute {
		value = text.DurationWords(d)
	}
	if !o.Optional && !slices.Contains([]string{"", "0", "0s"}, value) && !strings.Contains(o.Usage, "default ") {
		o.Usage += "; default " + value
	}
	return o
}

// TypedForm returns the option in the form that a user types.
func (o FlagOption) TypedForm() string {
	switch {
	case o.Value == "" && len(o.Name) == 1:
		return "-" + o.Name // OptionName takes r for an interpreter, which has a value
	case o.Value == "":
		return OptionName(o.Name)
	case o.Optional:
		return OptionName(o.Name) + "[=" + o.Value + "]"
	}
	return OptionName(o.Name) + " " + o.Value
}

// A CompletionItem holds a possible completion and its description. The words :files and :dirs tell
// the shell to add files or directories.
type CompletionItem struct{ Word, Description string }
