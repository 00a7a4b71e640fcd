package cli

import (
	"embed"
	"strings"
)

//go:embed help/*.txt
var helpPages embed.FS

// help teaches the command line: one page for most, and one for each topic.
func help(s streams, args []string) (int, error) {
	topic := "repl"
	if len(args) > 0 {
		topic = args[0]
	}
	page, err := helpPages.ReadFile("help/" + topic + ".txt")
	if err != nil || len(args) > 1 {
		return statusUsage, misuse("%q: there are repl help, repl help commands and repl help sessions", strings.Join(args, " "))
	}
	_, err = s.out.Write(page)
	return statusDone, err
}
