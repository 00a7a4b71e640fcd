package cli

import (
	"cmp"
	"embed"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
)

// helpPages holds the help pages that cover more than one command.
//
//go:embed help/*.txt
var helpPages embed.FS

// Help pages that cover more than one command.
const (
	pageRepl     = "repl"
	pageCommands = "commands"
	pageSessions = "sessions"
)

// newHelpCommand returns the command that prints help: a page with the essentials, and a page for
// each topic and command.
func newHelpCommand(f *flag.FlagSet) cmdkit.Action {
	man := f.Bool("man", false, "print the manual page, for man -l -")
	markdown := f.Bool("markdown", false, "print all commands as Markdown")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(f, args)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		topic := strings.Join(words, " ")
		text := ""
		switch {
		case *man && *markdown || topic != "" && (*man || *markdown):
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("use only one of --man, --markdown and a topic")
		case *man:
			text, err = manualPage()
		case *markdown:
			text = commandsMarkdown()
		case topic == "":
			text, err = pageText(pageRepl)
		default:
			text, err = topicText(topic)
		}
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		_, err = s.Out.Write([]byte(text))
		return cmdkit.StatusDone, err
	}
}

// topicText returns the page of a topic or a command.
func topicText(topic string) (string, error) {
	if slices.Contains([]string{pageRepl, pageCommands, pageSessions}, topic) {
		return pageText(topic)
	}
	if c, ok := findCommand(topic); ok {
		return c.HelpText(), nil
	}
	hint := ""
	if n := cmp.Or(renamedCommands[topic], cmdkit.NearestName(topic, helpTopics())); n != "" {
		hint = fmt.Sprintf("did you mean repl help %s? ", n)
	}
	return "", cmdkit.UsageErrorf("no help topic %q; %stry repl help, repl help commands, repl help sessions, or repl help COMMAND", topic, hint)
}

// showPage prints the page of a command.
func showPage(s cmdkit.Streams, c cmdkit.CommandInfo) (int, error) {
	text := c.HelpText()
	if c.Name == "" {
		var err error
		if text, err = pageText(pageRepl); err != nil {
			return cmdkit.StatusFailed, err
		}
	}
	_, err := s.Out.Write([]byte(text))
	return cmdkit.StatusDone, err
}

// pageText returns a help page, with lists and figures filled in from the code.
func pageText(page string) (string, error) {
	if page == pageCommands {
		return commandsPage(), nil
	}
	text, err := helpPages.ReadFile("help/" + page + ".txt")
	return strings.NewReplacer(
		"{sessions}\n", commandList(cmdkit.GroupSessions),
		"{running}", strconv.Itoa(cmdkit.StatusRunning),
		"{waiting}", strconv.Itoa(cmdkit.StatusWaiting),
		"{unreachable}", strconv.Itoa(cmdkit.StatusUnreachable),
	).Replace(string(text)), err
}

// commandsPage returns the list of all commands, each in a line or two.
func commandsPage() string {
	var b strings.Builder
	b.WriteString("Every command. repl help COMMAND, or repl COMMAND --help, has the flags of one.\n")
	for _, g := range cmdkit.CommandGroups() {
		fmt.Fprintf(&b, "\n%s\n%s", g, commandList(g))
	}
	return b.String()
}

// commandList returns the commands of a group.
func commandList(group string) string {
	var b strings.Builder
	for _, c := range visibleCommands() {
		if c.Group == group {
			b.WriteString(cmdkit.HelpEntry(strings.TrimSpace(c.FullName()+" "+c.Args), c.Summary, 32))
		}
	}
	return b.String()
}

// commandsMarkdown returns the page of the site that describes each command.
func commandsMarkdown() string {
	var b strings.Builder
	b.WriteString("# Commands\n\n`repl help --markdown` prints this page.\n")
	for _, g := range cmdkit.CommandGroups() {
		fmt.Fprintf(&b, "\n## %s\n", g)
		for _, c := range visibleCommands() {
			if c.Group != g {
				continue
			}
			fmt.Fprintf(&b, "\n### %s\n\n```\n%s\n```\n\n%s.\n", c.FullName(), c.UsageLine(), strings.TrimSuffix(c.Summary, "?"))
			if c.Details != "" {
				fmt.Fprintf(&b, "\n```\n%s\n```\n", c.Details)
			}
			for i, o := range c.FlagOptions() {
				if i == 0 {
					b.WriteString("\n")
				}
				fmt.Fprintf(&b, "- `%s`: %s\n", o.TypedForm(), o.Usage)
			}
		}
	}
	return b.String()
}

// manualPage returns the manual page, in roff.
func manualPage() (string, error) {
	var b strings.Builder
	b.WriteString(".TH REPL 1 \"\" \"Turnstone " + cmdkit.ProgramVersion() + "\"\n.SH NAME\nrepl \\- keep language sessions alive\n.SH SYNOPSIS\n")
	for i, c := range visibleCommands() {
		if i > 0 {
			b.WriteString(".br\n")
		}
		b.WriteString(escapeRoff(c.UsageLine()))
	}
	for _, page := range []string{pageRepl, pageSessions} {
		text, err := pageText(page)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, ".SH %s\n.nf\n%s.fi\n", map[string]string{pageRepl: "OVERVIEW", pageSessions: "SESSIONS"}[page], escapeRoff(text))
	}
	b.WriteString(".SH COMMANDS\n")
	for _, c := range visibleCommands() {
		fmt.Fprintf(&b, ".SS %s%s", escapeRoff(c.UsageLine()), escapeRoff(c.Summary))
		if c.Details != "" {
			fmt.Fprintf(&b, ".PP\n.nf\n%s.fi\n", escapeRoff(c.Details))
		}
		for _, o := range c.FlagOptions() {
			fmt.Fprintf(&b, ".TP\n.B %s%s", escapeRoff(o.TypedForm()), escapeRoff(o.Usage))
		}
	}
	return b.String(), nil
}

// escapeRoff escapes a text, so that roff sees no requests or escapes in it.
func escapeRoff(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "~", `\(ti`, "^", `\(ha`).Replace(strings.TrimSuffix(line, "\n"))
		if strings.HasPrefix(line, ".") {
			line = `\&` + line
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// helpTopics returns the arguments of repl help.
func helpTopics() []string {
	all := []string{pageRepl, pageCommands, pageSessions}
	for _, c := range visibleCommands()[1:] {
		all = append(all, c.Name)
	}
	return all
}
