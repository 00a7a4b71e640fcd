package languages

import (
	"io"
	"os"
	"slices"

	"github.com/turnstone-repl/turnstone/cmd/internal/export"
	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit"
	"github.com/turnstone-repl/turnstone/cmd/internal/pkginstall"
	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
)

// StandardInput in place of a file means that the program is read from standard input.
const StandardInput = "-"

// A Language holds the facts about a language that the command needs and that a worker cannot report.
type Language struct {
	Name         string
	aliases      []string // other names that people use
	Display      string   // the name as people write it: "Python"
	Continuation string   // the prompt for further lines of an input
	Syntax       *lineedit.Syntax

	// NewSpec finds the runtime. executable and dir are the user's choices, or "".
	NewSpec func(executable, dir string, more RuntimeSettings) workers.Spec

	// FileInput returns an input that runs a file as a separate program. path is absolute or
	// StandardInput; name is the path as given. It may change how the runtime starts.
	FileInput func(s *workers.Spec, path, name string, args []string) (input string, err error)

	// OptionInput returns an input for an option of the language's own command: -c and code, or -m
	// and a module. nil means that the language has no such options.
	OptionInput func(option, text string, args []string) string

	// ProcessArgs returns the runtime's arguments to run a program as its own process. option is -c
	// or -m, or "" for a file. nil means that all code runs in a worker.
	ProcessArgs func(option, text string, args []string) []string

	// TranslateInput translates commands of other prompts into code of the language. An error suggests
	// other code. nil changes nothing. Only a user's input is translated.
	TranslateInput func(code string) (string, error)

	// QuitInput is an input that makes the runtime exit as at the end of a program.
	QuitInput string

	// Candidates returns the places that NewSpec searches.
	Candidates func(executable, dir string) []workers.Candidate

	Export export.NotebookLanguage

	// Packages installs more packages.
	Packages *pkginstall.Tool

	// Dialect returns the code that checks a worker; with a zero value there are fewer checks. It may
	// read a file.
	Dialect func() (conformance.Dialect, error)
}

// RuntimeSettings are settings of a runtime besides the environment that it inherits.
type RuntimeSettings struct {
	RequiresPython string   // conditions for the version, as in python.FindOptions; only for Python
	Env            []string // as in workers.Spec
	InitFile       string   // an absolute path, run at the start; "" for none
	IsProgram      bool     // an input is a whole program
	AsProcess      bool     // run the program as the runtime's own process, without a worker
}

// hasName reports whether the language has a name.
func (l Language) hasName(name string) bool {
	return name == l.Name || slices.Contains(l.aliases, name)
}

// lookupEnv returns the user's value of a variable that --init replaces, and whether it is set.
func (s RuntimeSettings) lookupEnv(name string) (value string, set bool) {
	if value, set = environ.Lookup(s.Env, name); set {
		return value, true
	}
	return os.LookupEnv(name)
}

// readProgram reads a file that is one input.
func readProgram(path string) (string, error) {
	file := os.Stdin
	if path != StandardInput {
		var err error
		if file, err = os.Open(path); err != nil {
			return "", err
		}
		defer file.Close()
	}
	return ReadInput(file)
}

// ReadInput reads a whole input, up to the maximum size.
func ReadInput(from io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(from, session.MaxInputBytes+1))
	if err == nil && len(text) > session.MaxInputBytes {
		err = session.Errorf(session.KindTooLarge, "the input is larger than %d MiB", session.MaxInputBytes>>20)
	}
	return string(text), err
}
