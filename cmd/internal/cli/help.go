package cli

import (
	"embed"
	"slices"
	"strings"
)

//go:embed help/*.txt
var helpPages embed.FS

const (
	pageRepl     = "repl"
	pageCommands = "commands"
	pageSessions = "sessions"
)

// help teaches the command line: one page for most, and one for each topic. The
// name of a command stands for the page that has its flags.
func help(s streams, args []string) (int, error) {
	topic := pageRepl
	if len(args) > 0 {
		topic = args[0]
	}
	page := topic
	if i := slices.IndexFunc(commands(), func(c command) bool { return c.name == topic }); i >= 0 {
		page = commands()[i].page
	}
	if len(args) > 1 || !slices.Contains([]string{pageRepl, pageCommands, pageSessions}, page) {
		return statusUsage, misuse("%q: there are repl help, repl help commands and repl help sessions", strings.Join(args, " "))
	}
	return showPage(s, page)
}

func showPage(s streams, page string) (int, error) {
	text, err := helpPages.ReadFile("help/" + page + ".txt")
	if err != nil {
		return statusFailed, err
	}
	_, err = s.out.Write(text)
	return statusDone, err
}
