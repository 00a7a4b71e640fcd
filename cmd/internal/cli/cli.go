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

	"github.com/turnstone-repl/turnstone/internal/spelling"
)

// Exit statuses of the command itself.
const (
	statusDone   = 0
	statusFailed = 1
	statusUsage  = 2
)

// streams are a command's standard streams.
type streams struct {
	in       *os.File
	out, err io.Writer
}

// A usageError describes a mistake in the command line.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func misuse(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// Main runs the command line without the program's name and returns the exit
// status. It uses the process's streams, signals and environment.
func Main(args []string) int {
	chooseTemp()
	return dispatch(streams{standard(os.Stdin), standard(os.Stdout), standard(os.Stderr)}, args)
}

// standard returns a standard stream, or an empty one in its place if there is none: on Windows, a
// program that has no console may start others without. Elsewhere Go's runtime does this.
func standard(f *os.File) *os.File {
	if _, err := f.Stat(); err == nil {
		return f
	}
	if empty, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		return empty
	}
	return f
}

func dispatch(s streams, args []string) int {
	if at := os.Getenv(askpassEnv); at != "" && isQuestion(args) {
		return askpass(s, at, args[0])
	}
	c := commands()[0]
	if len(args) > 0 {
		name := args[0]
		switch name {
		case "-h", "-help", "--help":
			name = "help"
		case "-version", "--version", "-V":
			name = "version"
		}
		if named, ok := commandNamed(name); ok {
			c, args = named, args[1:]
		} else if name == kernelWorker { // what repl itself starts
			c, args = command{name: name, define: runKernel}, args[1:]
		}
	}
	_, run := c.flags()
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
	if isUnread(s.out, err) {
		return 128 + int(syscall.SIGPIPE) // as programs end that catch no signals
	}
	if err != nil {
		fmt.Fprintf(s.err, "repl: %s\n", oneLine(err))
	}
	return status
}

// isUnread reports whether err is that of a write to w which nobody reads on, as after head.
func isUnread(w io.Writer, err error) bool {
	file, isFile := w.(*os.File)
	wrong, ok := errors.AsType[*fs.PathError](err)
	return ok && isFile && wrong.Path == file.Name() && errors.Is(wrong, syscall.EPIPE)
}

// commandNamed finds a command by its name.
func commandNamed(name string) (command, bool) {
	all := commands()[1:]
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		return command{}, false
	}
	return all[i], true
}

// oneLine returns an error's text without a repetition of the program's name. It may have names that code
// made, so nothing in it acts on a terminal.
func oneLine(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "supervisor: "), "daemon: ")
	return plainLine(strings.NewReplacer("\n", "; ", "\t", " ").Replace(text))
}

// newFlags returns a flag set that prints nothing by itself.
func newFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// parse parses args and returns mistakes as a usageError.
func parse(f *flag.FlagSet, args []string) error {
	err := f.Parse(args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	command, _, _ := strings.Cut(f.Name(), " ")
	if command == "repl" {
		command = ""
	}
	return misuse("%s (see repl help%s)", inOurWords(f, err), strings.TrimSuffix(" "+command, " "))
}

// habits are options of python and R that people type out of habit, with their equivalent.
var habits = map[string]string{
	"v": "repl version says which this is",
	"f": "a file is given by its name alone",
}

// inOurWords rewords an error of package flag.
func inOurWords(f *flag.FlagSet, err error) string {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var known []string
		f.VisitAll(func(f *flag.Flag) { known = append(known, f.Name) })
		text = "unknown option " + dashed(name)
		if does, ok := habits[name]; ok && f.Name() == "repl" {
			return text + "; " + does
		}
		if n := nearest(name, known); n != "" && len(name) > 1 {
			return text + "; did you mean " + dashed(n) + "?"
		}
		return text
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return dashed(name) + " needs a value"
	}
	return text
}

// dashed returns an option as people type it.
func dashed(name string) string {
	if len(name) == 1 && name != "r" { // that is a whole word, as python is
		return "-" + name
	}
	return "--" + name
}

// parseAnywhere parses flags in any position and returns the other words.
func parseAnywhere(f *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := parse(f, args); err != nil {
			return nil, err
		}
		if args = f.Args(); len(args) == 0 {
			return words, nil
		}
		words, args = append(words, args[0]), args[1:]
	}
}

// nothingAfter refuses arguments after the flags.
func nothingAfter(f *flag.FlagSet) error {
	if f.NArg() > 0 {
		return misuse("%s takes no argument %q", f.Name(), f.Arg(0))
	}
	return nil
}

// nearest returns the name most similar to a misspelled one; "" when none is. Of names that are
// equally near it is one of the same length: two letters change places easily.
func nearest(name string, names []string) string {
	best, least := "", 3 // more than two slips are another word
	for _, n := range names {
		d := spelling.Distance(name, n)
		if d < least || d == least && best != "" && len(n) == len(name) && len(best) != len(name) {
			best, least = n, d
		}
	}
	return best
}
