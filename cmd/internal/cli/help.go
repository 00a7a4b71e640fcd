package cli

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver"
)

//go:embed help/*.txt
var helpPages embed.FS

const (
	pageRepl     = "repl"
	pageCommands = "commands"
	pageSessions = "sessions"
)

// help teaches the command line: one page for most, one for each topic, and for the
// name of a command its part of a page.
func help(s streams, args []string) (int, error) {
	topic := strings.Join(args, " ")
	if topic == "" {
		topic = pageRepl
	}
	pages, names := []string{pageRepl, pageCommands, pageSessions}, []string{}
	for _, c := range commands() {
		if names = append(names, c.name); c.name == topic {
			return showPart(s, c)
		}
	}
	if slices.Contains(pages, topic) {
		return showPage(s, topic)
	}
	hint := ""
	if n := nearest(topic, append(pages, names...)); n != "" {
		hint = fmt.Sprintf("did you mean repl help %s? ", n)
	}
	return statusUsage, misuse("no help topic %q; %stry repl help, repl help commands, repl help sessions, or repl help COMMAND", topic, hint)
}

func showPage(s streams, page string) (int, error) {
	text, err := pageText(page)
	if err != nil {
		return statusFailed, err
	}
	_, err = s.out.Write([]byte(text))
	return statusDone, err
}

// pageText is a page with the figures that it quotes, which are the code's own.
func pageText(page string) (string, error) {
	text, err := helpPages.ReadFile("help/" + page + ".txt")
	return strings.NewReplacer(
		"{daemon-idle}", hours(daemonIdle),
		"{web-idle}", hours(mcpserver.DefaultIdle),
		"{web-idle-least}", hours(mcpserver.MinIdle),
		"{image-size}", strconv.Itoa(mcpserver.DefaultImageSide),
		"{running}", strconv.Itoa(statusRunning),
		"{waiting}", strconv.Itoa(statusWaiting),
		"{unreachable}", strconv.Itoa(statusUnreachable),
	).Replace(string(text)), err
}

// hours is a duration as people write it: "24 hours", "15 minutes".
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

// showPart shows what the page of a command says of it.
func showPart(s streams, c command) (int, error) {
	text, err := pageText(c.page)
	if err != nil {
		return statusFailed, err
	}
	part := partOf(text, "  repl "+c.name+" ")
	if c.page == pageSessions {
		part += partOf(text, "  [") // of all of them
	}
	_, err = fmt.Fprintf(s.out, "%s\nMore: repl help %s\n", part, c.page)
	return statusDone, err
}

// partOf is every entry of a page that begins so: its line and those that are
// indented below it.
func partOf(page, beginning string) string {
	var part strings.Builder
	ours := false
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "   ") {
			ours = strings.HasPrefix(line, beginning)
		}
		if ours {
			part.WriteString(line)
		}
	}
	return part.String()
}
