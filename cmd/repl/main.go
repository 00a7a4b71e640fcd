// Command repl keeps sessions of Python, R and other languages alive, for agents, programs and
// people. Run repl help for its usage.
package main

import (
	"os"

	"github.com/turnstone-repl/turnstone/cmd/internal/cli"
	"github.com/turnstone-repl/turnstone/supervisor"
)

func main() {
	supervisor.MonitorMain()
	os.Exit(cli.Main(os.Args[1:]))
}
