package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// Exit statuses of the command itself.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2
)

// streams holds the three standard streams of a command.
type streams struct {
	in       *os.File
	out, err io.Writer
}

// A usageError describes a mistake in the command line.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usageErrorf(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// Main runs the command line without the program's name and returns the exit
// status. It uses the process's streams, signals and environment.
func Main(args []string) int {
	chooseTempDir()
	return dispatchCommand(streams{streamOrNull(os.Stdin), streamOrNull(os.Stdout), streamOrNull(os.Stderr)}, args)
}

// streamOrNull returns a standard stream, or the null device if it does not exist. On Windows, a
// program without a console may start others without streams. Elsewhere the Go runtime does this.
func streamOrNull(f *os.File) *os.File {
	if _, err := f.Stat(); err == nil {
		return f
	}
	if empty, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		return empty
	}
	return f
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
			c, args = command{name: name, newAction: newKernelWorkerCommand}, args[1:]
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
		fmt.Fprintf(s.err, "repl: %s\n", oneLine(err))
	}
	return status
}

// isBrokenPipe reports whether err comes from writing to w after its reader is gone, as with head.
func isBrokenPipe(w io.Writer, err error) bool {
	file, isFile := w.(*os.File)
	pathErr, ok := errors.AsType[*fs.PathError](err)
	return ok && isFile && pathErr.Path == file.Name() && errors.Is(pathErr, syscall.EPIPE)
}

// findCommand finds a command by its name.
func findCommand(name string) (command, bool) {
	all := allCommands()[1:]
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		return command{}, false
	}
	return all[i], true
}

// oneLine returns an error as one line, without the program's name, which is printed before it. The
// error may quote names that code has made, so the line is made safe for a terminal.
func oneLine(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "supervisor: "), "daemon: ")
	return plainLine(strings.NewReplacer("\n", "; ", "\t", " ").Replace(text))
}

// newFlags returns a flag set that prints nothing.
func newFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// parseFlags parses args and returns mistakes as a usageError.
func parseFlags(f *flag.FlagSet, args []string) error {
	err := f.Parse(args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	command, _, _ := strings.Cut(f.Name(), " ")
	if command == "repl" {
		command = ""
	}
	return usageErrorf("%s (see repl help%s)", rewordFlagError(f, err), strings.TrimSuffix(" "+command, " "))
}

// interpreterFlagHints maps options of python and R that people type here to what they do in repl.
var interpreterFlagHints = map[string]string{
	"v": "repl version says which this is",
	"f": "to run a file, give its name without an option",
}

// rewordFlagError rewords an error of package flag.
func rewordFlagError(f *flag.FlagSet, err error) string {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var known []string
		f.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
		text = "unknown option " + optionName(name)
		if equivalent, ok := interpreterFlagHints[name]; ok && f.Name() == "repl" {
			return text + "; " + equivalent
		}
		if n := renamedFlag(name, known); n != "" {
			return text + "; did you mean " + optionName(n) + "?"
		}
		if n := nearestName(name, known); n != "" && len(name) > 1 {
			return text + "; did you mean " + optionName(n) + "?"
		}
		return text
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return optionName(name) + " needs a value"
	}
	return text
}

// optionName returns an option as people type it.
func optionName(name string) string {
	if len(name) == 1 && name != "r" { // -r is a word like --python
		return "-" + name
	}
	return "--" + name
}

// parseInterspersed parses flags in any position and returns the remaining arguments.
func parseInterspersed(f *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := parseFlags(f, args); err != nil {
			return nil, err
		}
		if args = f.Args(); len(args) == 0 {
			return words, nil
		}
		words, args = append(words, args[0]), args[1:]
	}
}

// requireNoArgs refuses arguments after the flags.
func requireNoArgs(f *flag.FlagSet) error {
	if f.NArg() > 0 {
		return usageErrorf("%s takes no argument %q", f.Name(), f.Arg(0))
	}
	return nil
}

// nearestName returns the name most similar to a misspelled one, or "" if none is close. Among
// equally close names it prefers one of the same length, because letters are easily swapped.
func nearestName(name string, names []string) string {
	best, least := "", 3 // three slips or more mean another word
	for _, n := range names {
		d := text.Distance(name, n)
		if d < least || d == least && best != "" && len(n) == len(name) && len(best) != len(name) {
			best, least = n, d
		}
	}
	return best
}
