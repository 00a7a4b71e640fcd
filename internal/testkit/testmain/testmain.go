package testmain

import (
	"fmt"
	"os"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
)

// Options selects what a test binary can be, and how its tests run. The zero value runs the tests.
type Options struct {
	// Monitor serves as a worker's monitor if this process was started as one, and otherwise
	// returns.
	Monitor func()

	Programs []Program                     // what else this binary can be; the first match runs
	Commands map[string]func([]string) int // the same, selected by the first argument; gets those after it

	Serial       bool // the tests use CPU time: no more run in parallel than there are processors
	PrivateState bool // XDG_STATE_HOME is a directory of this run
	BuildRepl    bool // replbin.Path is a build of the command in the tree

	Prepare func(dir string) error          // precedes the tests; dir is removed after them
	RunAll  func(m *testing.M) (status int) // runs the tests; nil means m.Run
	AtEnd   func()                          // follows the tests, before the directory is removed
}

// A Program is a task that the test binary performs instead of its tests.
type Program struct {
	Variable string // if it is set and not empty; Main does not see it in the environment

	Main func(value string) (status int) // its result is the exit status
}

// Run runs the tests of a package, or the program that Options selects in their place, and exits.
func Run(m *testing.M, o Options) {
	if o.Monitor != nil {
		o.Monitor()
	}
	for _, p := range o.Programs {
		if value := os.Getenv(p.Variable); value != "" {
			_ = os.Unsetenv(p.Variable) // what it starts must not run the same program
			os.Exit(p.Main(value))
		}
	}
	if len(os.Args) > 1 && o.Commands[os.Args[1]] != nil {
		os.Exit(o.Commands[os.Args[1]](os.Args[2:]))
	}
	if !o.Serial {
		allowParallel()
	}
	os.Exit(runTests(m, &o))
}

// runTests runs the tests, between the steps that Options selects.
func runTests(m *testing.M, o *Options) (status int) {
	if o.PrivateState || o.BuildRepl || o.Prepare != nil {
		dir, err := os.MkdirTemp("", "test-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = o.prepare(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if o.AtEnd != nil {
		defer o.AtEnd()
	}
	if o.RunAll != nil {
		return o.RunAll(m)
	}
	return m.Run()
}

func (o *Options) prepare(dir string) error {
	if o.PrivateState {
		if err := os.Setenv("XDG_STATE_HOME", dir); err != nil {
			return err
		}
	}
	if o.BuildRepl {
		if err := replbin.BuildShared(dir); err != nil {
			return err
		}
	}
	if o.Prepare != nil {
		return o.Prepare(dir)
	}
	return nil
}
