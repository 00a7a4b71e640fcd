package cli

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/cmd/internal/askpass"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/commands/jupytercmd"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
)

// Main runs a command line, which lacks the program's name, and returns the exit status. It uses the
// process's streams, signals and environment.
func Main(args []string) int {
	daemonlink.ChooseTempDir()
	return dispatchCommand(cmdkit.Streams{In: cmdkit.StreamOrNull(os.Stdin), Out: cmdkit.StreamOrNull(os.Stdout), Err: cmdkit.StreamOrNull(os.Stderr)}, args)
}

func dispatchCommand(s cmdkit.Streams, args []string) int {
	if at := os.Getenv(askpass.SocketVariable); at != "" && isAskpassCall(args) {
		return askpass.Run(s, at, args[0])
	}
	c := allCommands()[0]
	if len(args) > 0 {
		name := args[0]
		switch name {
		case "-h", "-help", "--help":
			name = "help"
		case "-version", "--version", "-V":
			name = "version"
		}
		if named, ok := findCommand(name); ok {
			c, args = named, args[1:]
		} else if name == languages.KernelWorker { // started by repl itself
			c, args = cmdkit.CommandInfo{Name: name, NewAction: jupytercmd.NewKernelWorkerCommand}, args[1:]
		}
	}
	_, run := c.FlagSet()
	status, err := run(s, args)
	var usage *cmdkit.UsageError
	switch {
	case errors.Is(err, flag.ErrHelp):
		status, err = showPage(s, c)
	case errors.As(err, &usage):
		status = cmdkit.StatusUsage
	case err != nil && status == cmdkit.StatusDone:
		status = cmdkit.StatusFailed
	}
	if cmdkit.IsBrokenPipe(s.Out, err) {
		return 128 + int(syscall.SIGPIPE) // like a program that does not catch the signal
	}
	if err != nil {
		fmt.Fprintf(s.Err, "repl: %s\n", cmdkit.ErrorLine(err))
	}
	return status
}

// isAskpassCall reports whether the arguments come from ssh: a single one that is not the name of a
// command.
func isAskpassCall(args []string) bool {
	if len(args) != 1 {
		return false
	}
	_, isCommand := findCommand(args[0])
	return !isCommand && !strings.HasPrefix(args[0], "-")
}
