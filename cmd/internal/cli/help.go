package cli

import (
	"embed"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed help/*.txt
var helpPages embed.FS

// Pages of the help that are about more than one command.
const (
	pageRepl     = "repl"
	pageCommands = "commands"
	pageSessions = "sessions"
)

// help explains the command line: one page for the essentials, and one for each topic and
// each command.
func help(f *flag.FlagSet) action {
	man := f.Bool("man", false, "print the manual page, which man -l - shows")
	markdown := f.Bool("markdown", false, "print all commands as Markdown")
	return func(s streams, args []string) (int, error) {
		words, err := parseAnywhere(f, args)
		if err != nil {
			return statusUsage, err
		}
		topic := strings.Join(words, " ")
		text := ""
		switch {
		case *man && *markdown || topic != "" && (*man || *markdown):
			return statusUsage, misuse("use only one of --man, --markdown and a topic")
		case *man:
			text, err = manual()
		case *markdown:
			text = commandsMarkdown()
		case topic == "":
			text, err = pageText(pageRepl)
		default:
			text, err = topicText(topic)
		}
		if err != nil {
			return statusUsage, err
		}
		_, err = s.out.Write([]byte(text))
		return statusDone, err
	}
}

// topicText returns the page of a topic or a command.
func topicText(topic string) (string, error) {
	if slices.Contains([]string{pageRepl, pageCommands, pageSessions}, topic) {
		return pageText(topic)
	}
	if c, ok := commandNamed(topic); ok {
		return c.page(), nil
	}
	hint := ""
	if n := nearest(topic, topics()); n != "" {
		hint = fmt.Sprintf("did you mean repl help %s? ", n)
	}
	return "", misuse("no help topic %q; %stry repl help, repl help commands, repl help sessions, or repl help COMMAND", topic, hint)
}

// showPage shows the page of a command.
func showPage(s streams, c command) (int, error) {
	text := c.page()
	if c.name == "" {
		var err error
		if text, err = pageText(pageRepl); err != nil {
			return statusFailed, err
		}
	}
	_, err := s.out.Write([]byte(text))
	return statusDone, err
}

// pageText returns a page of help: its text, with lists and figures from the code.
func pageText(page string) (string, error) {
	if page == pageCommands {
		return commandsPage(), nil
	}
	text, err := helpPages.ReadFile("help/" + page + ".txt")
	return strings.NewReplacer(
		"{sessions}\n", commandList(groupSessions),
		"{running}", strconv.Itoa(statusRunning),
		"{waiting}", strconv.Itoa(statusWaiting),
		"{unreachable}", strconv.Itoa(statusUnreachable),
	).Replace(string(text)), err
}

// commandsPage returns every command in a line or two.
func commandsPage() string {
	var b strings.Builder
	b.WriteString("Every command. repl help COMMAND, or repl COMMAND --help, has the flags of one.\n")
	for _, g := range groups() {
		fmt.Fprintf(&b, "\n%s\n%s", g, commandList(g))
	}
	return b.String()
}

// commandList returns the commands of a group.
func commandList(group string) string {
	var b strings.Builder
	for _, c := range commands() {
		if c.group == group {
			b.WriteString(entry(strings.TrimSpace(c.fullName()+" "+c.args), c.says, 32))
		}
	}
	return b.String()
}

// page returns the full description of a command, for a terminal.
func (c command) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", c.usage(), c.says)
	if c.text != "" {
		fmt.Fprintf(&b, "\n%s\n", c.text)
	}
	for i, o := range c.options() {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(entry(o.form(), o.words, 24))
	}
	if c.group == groupSessions {
		b.WriteString("\nMore: repl help sessions\n")
	}
	return b.String()
}

// entry returns a term and its meaning, in lines of 80 characters. The meaning begins at a
// column, on the next line if the term is too long.
func entry(term, means string, column int) string {
	lines := strings.ReplaceAll(filled(means, 80-column), "\n", "\n"+strings.Repeat(" ", column))
	if term = "  " + term; len(term) > column-2 {
		return term + "\n" + strings.Repeat(" ", column) + lines + "\n"
	}
	return fmt.Sprintf("%-*s%s\n", column, term, lines)
}

// filled returns a text in lines of at most width characters.
func filled(text string, width int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > width:
			b.WriteString("\n")
			at = 0
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}

// hours returns a duration as people write it: "24 hours", "15 minutes".
func hours(d time.Duration) string {
	n, unit := int(d/time.Minute), "minute"
	if d >= time.Hour {
		n, unit = int(d/time.Hour), "hour"
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// commandsMarkdown returns docs/commands.md.
func commandsMarkdown() string {
	var b strings.Builder
	b.WriteString("# Commands\n\n`repl help --markdown` prints this page.\n")
	for _, g := range groups() {
		fmt.Fprintf(&b, "\n## %s\n", g)
		for _, c := range commands() {
			if c.group != g {
				continue
			}
			fmt.Fprintf(&b, "\n### %s\n\n```\n%s\n```\n\n%s.\n", c.fullName(), c.usage(), strings.TrimSuffix(c.says, "?"))
			if c.text != "" {
				fmt.Fprintf(&b, "\n```\n%s\n```\n", c.text)
			}
			for i, o := range c.options() {
				if i == 0 {
					b.WriteString("\n")
				}
				fmt.Fprintf(&b, "- `%s`: %s\n", o.form(), o.words)
			}
		}
	}
	return b.String()
}

// manual returns the manual page, in roff.
func manual() (string, error) {
	var b strings.Builder
	b.WriteString(".TH REPL 1 \"\" \"Turnstone " + programVersion() + "\"\n.SH NAME\nrepl \\- keep language sessions alive\n.SH SYNOPSIS\n")
	for i, c := range commands() {
		if i > 0 {
			b.WriteString(".br\n")
		}
		b.WriteString(roff(c.usage()))
	}
	for _, page := range []string{pageRepl, pageSessions} {
		text, err := pageText(page)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, ".SH %s\n.nf\n%s.fi\n", map[string]string{pageRepl: "OVERVIEW", pageSessions: "SESSIONS"}[page], roff(text))
	}
	b.WriteString(".SH COMMANDS\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, ".SS %s%s", roff(c.usage()), roff(c.says))
		if c.text != "" {
			fmt.Fprintf(&b, ".PP\n.nf\n%s.fi\n", roff(c.text))
		}
		for _, o := range c.options() {
			fmt.Fprintf(&b, ".TP\n.B %s%s", roff(o.form()), roff(o.words))
		}
	}
	return b.String(), nil
}

// roff escapes a text, so that roff takes nothing in it for a request or an escape.
func roff(text string) string {
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
