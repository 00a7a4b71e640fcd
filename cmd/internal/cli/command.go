package cli

import (
	"flag"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// An action runs a command with the arguments after its name. Its error is printed; for a
// *usageError the exit status is 2.
type action func(s streams, args []string) (status int, err error)

// A commandInfo describes repl itself or a subcommand. Help, shell completion, the manual page and
// docs/commands.md are generated from it.
type commandInfo struct {
	name    string // "" is repl alone
	args    string // shown after the flags; see placeholderAt
	summary string // one line
	details string // what the flags do not say; may be ""
	group   string
	hidden  bool // only for other programs: no list shows it, but repl help NAME does

	// newAction adds the flags with their descriptions, and returns the action to run after they
	// are parsed. It has no other effect.
	newAction func(f *flag.FlagSet) action

	// argValues returns the values of CLIENT or TOPIC.
	argValues func() []string
}

// The groups of commands, in the order of the help.
const (
	groupCode     = "Run code"
	groupSessions = "Long-lived sessions"
	groupAgents   = "Agents and editors"
	groupMore     = "More"
)

func commandGroups() []string { return []string{groupCode, groupSessions, groupAgents, groupMore} }

// flagSet returns a new set of the command's flags, and its action.
func (c commandInfo) flagSet() (*flag.FlagSet, action) {
	f := newFlags(c.fullName())
	if c.name != "" {
		f = newFlags(c.name)
	}
	return f, c.newAction(f)
}

func (c commandInfo) fullName() string { return strings.TrimSpace("repl " + c.name) }

// usageLine returns the command with its arguments.
func (c commandInfo) usageLine() string {
	text := c.fullName()
	if len(c.flagOptions()) > 0 {
		text += " [FLAG ...]"
	}
	return strings.TrimSpace(text + " " + c.args)
}

// A flagOption is a flag as the help shows it.
type flagOption struct {
	name     string
	value    string // the placeholder; "" for a flag that has no value
	optional bool   // the value may be omitted
	usage    string
}

// flagOptions returns the options of a command, by name.
func (c commandInfo) flagOptions() []flagOption {
	f, _ := c.flagSet()
	var all []flagOption
	f.VisitAll(func(one *flag.Flag) { all = append(all, newFlagOption(one)) })
	return all
}

// newFlagOption parses the description of a flag: the placeholder in back quotes, then its effect.
// It adds the default, unless the description names it.
func newFlagOption(f *flag.Flag) flagOption {
	o := flagOption{name: f.Name, usage: f.Usage}
	if rest, ok := strings.CutPrefix(f.Usage, "`"); ok {
		o.value, o.usage, _ = strings.Cut(rest, "` ")
	}
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	o.optional = ok && b.IsBoolFlag()
	value := f.DefValue
	if d, err := time.ParseDuration(value); err == nil && d >= time.Minute {
		value = text.DurationWords(d)
	}
	if !o.optional && !slices.Contains([]string{"", "0", "0s"}, value) && !strings.Contains(o.usage, "default ") {
		o.usage += "; default " + value
	}
	return o
}

// typedForm returns the option in the form that a user types.
func (o flagOption) typedForm() string {
	switch {
	case o.value == "":
		return optionName(o.name)
	case o.optional:
		return optionName(o.name) + "[=" + o.value + "]"
	}
	return optionName(o.name) + " " + o.value
}
