package cli

import (
	_ "embed"
	"fmt"
)

//go:embed help.txt
var helpText string

// help teaches the command line.
func help(s streams, args []string) (int, error) {
	if len(args) > 0 {
		return statusUsage, misuse("%q: repl help is one page for everything", args[0])
	}
	_, err := fmt.Fprint(s.out, helpText)
	return statusDone, err
}
