package cli

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"syscall"
)

// Main runs the command line without the program's name and returns the exit
// status. It uses the process's streams, signals and environment.
func Main(args []string) int {
	chooseTempDir()
	return dispatchCommand(streams{in: streamOrNull(os.Stdin), out: streamOrNull(os.Stdout), err: streamOrNull(os.Stderr)}, args)
}

func dispatchCommand(s streams, args []string) int {
	if at := os.Getenv(askpassEnv); at != "" && isAskpassCall(args) {
		return runAskpass(s, at, args[0])
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
		} else if name == kernelWorker { // started by repl itself
			c, args = commandInfo{name: name, newAction: newKernelWorkerCommand}, args[1:]
		}
	}
	_, run := c.flagSet()
	status, err := run(s, args)
	var usage *usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
		status, err = showPage(s, c)
	case errors.As(err, &usage):
		status = statusUsage
	case err != nil && status == statusDone:
		status = statusFailed
	}
	if isBrokenPipe(s.out, err) {
		return 128 + int(syscall.SIGPIPE) // as a program ends that does not catch the signal
	}
	if err != nil {
		fmt.Fprintf(s.err, "repl: %s\n", errorLine(err))
	}
	return status
}

// findCommand finds a command by its name.
func findCommand(name string) (commandInfo, bool) {
	all := allCommands()[1:]
	i := slices.IndexFunc(all, func(c commandInfo) bool { return c.name == name })
	if i < 0 {
		return commandInfo{}, false
	}
	return all[i], true
}
