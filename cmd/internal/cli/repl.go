package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/cmd/internal/terminal"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// choice has the flags that all commands which start a runtime share.
type choice struct {
	lang, python, r, dir string
	worker               workerFlag
	init, envFile        string
	env                  []string // from envFile
	confinement          confinement
	sandbox              *workers.Sandbox // from confinement
	atPlaces             *workers.Sandbox // likewise, of sessions at other places than the usual one
	limits               limitFlags
	away                 bool // the session is not on this machine
	program              bool // it runs a whole program
	process              bool // which is the runtime's own process, if the language has that
}

// spec checks the choice and finds its runtime.
func (c choice) spec() (language, workers.Spec, error) {
	if c.lang == "" && c.python == "" && c.r != "" {
		c.lang = "r"
	}
	own, ok, err := c.worker.one(c.lang)
	if err != nil {
		return language{}, workers.Spec{}, err
	}
	if ok {
		c.lang = own.name
	}
	l, err := c.named(c.lang)
	if err != nil {
		return l, workers.Spec{}, err
	}
	if err := c.checkExecutable(l); err != nil {
		return l, workers.Spec{}, err
	}
	if err := c.resolvePaths(); err != nil {
		return l, workers.Spec{}, err
	}
	s, err := c.specOf(l)
	return l, s, err
}

// named finds a language by its name, those of --worker included.
func (c choice) named(name string) (language, error) {
	if own, ok := c.worker.named(name); ok {
		return own.language(), nil
	}
	return languageNamed(name)
}

// needsSession reports whether something of the choice is the supervisor's work.
func (c choice) needsSession() bool {
	return c.sandbox.Confines() || c.limits.Limits != (workers.Limits{}) || c.init != ""
}

// isOpen reports whether nothing of the choice names a language.
func (c choice) isOpen() bool {
	return c.lang == "" && c.python == "" && c.r == "" && len(c.worker) == 0
}

// executable returns the runtime that was named for a language, or "".
func (c choice) executable(l language) string {
	return map[string]string{"python": c.python, "r": c.r}[l.name]
}

// runtimeInDaemon returns the runtime for a session that a daemon makes: the one that was named,
// or for Python the environment that is active here, because the daemon has surroundings of its
// own; "" leaves it to the daemon. An environment of this machine means nothing at another place.
func (c choice) runtimeInDaemon(l language) string {
	named := c.executable(l)
	switch here, err := filepath.Abs(named); {
	case c.away || named == "" && l.name != "python":
		return named
	case named == "":
	case err == nil && c.dir == "" && isThere(here): // the daemon works in another directory
		return here
	default:
		return named
	}
	found, seen, err := python.Find(python.FindOptions{Dir: c.dir})
	if err != nil || !strings.HasPrefix(seen[len(seen)-1].Source, "active ") {
		return ""
	}
	return found.Path
}

// isThere reports whether there is anything at a path.
func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkExecutable refuses --python or --R for a language that the command line excludes.
func (c choice) checkExecutable(only language) error {
	for _, other := range languages() {
		if name := c.executable(other); name != "" && other.name != only.name {
			return misuse("--%s %s does not go with --lang %s", other.name, name, only.name)
		}
	}
	return nil
}

// resolvePaths checks the limits, and the directory and the files that were named, which it
// makes absolute.
func (c *choice) resolvePaths() (err error) {
	if err := c.limits.check(); err != nil {
		return err
	}
	if c.envFile != "" {
		if c.env, err = readEnvFile(c.envFile); err != nil {
			return misuse("--env-file: %v", err)
		}
	}
	if c.init != "" {
		if i, err := os.Stat(c.init); err != nil || i.IsDir() {
			return misuse("--init %s: no such file", c.init)
		}
		if c.init, err = filepath.Abs(c.init); err != nil {
			return err
		}
	}
	if c.dir == "" {
		return nil
	}
	if c.away {
		return absoluteThere("--dir", c.dir)
	}
	if i, err := os.Stat(c.dir); err != nil || !i.IsDir() {
		return misuse("--dir %s: not a directory", c.dir)
	}
	c.dir, err = filepath.Abs(c.dir)
	return err
}

// workingDir returns the working directory, for a session of the daemon, which has another one.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("the session would begin in the working directory, which is gone or closed to you: %w (go to another one)", err)
	}
	return dir, nil
}

// absoluteThere refuses a path at a place that depends on a directory.
func absoluteThere(name, dir string) error {
	if path.IsAbs(dir) || len(dir) > 2 && dir[1] == ':' && (dir[2] == '\\' || dir[2] == '/') {
		return nil
	}
	return misuse("%s %s: give an absolute path of the place", name, dir)
}

// specOf finds the runtime of a language. Naming an interpreter that cannot be used is a
// mistake of the user.
func (c choice) specOf(l language) (workers.Spec, error) {
	s := l.spec(c.executable(l), c.dir, c.surroundings())
	s.Sandbox, s.Limits = c.sandbox, c.limits.Limits
	if s.Err != nil && c.executable(l) != "" {
		return s, misuse("%v", s.Err)
	}
	return s, s.Err
}

func (c choice) surroundings() surroundings {
	return surroundings{env: c.env, init: c.init, program: c.program, process: c.process}
}

// define adds the flags that make the choice.
func (c *choice) define(f *flag.FlagSet) {
	f.Var(langFlag{&c.lang}, "lang", langWords())
	f.Var(&c.worker, "worker", workerWords)
	c.defineExecutables(f)
	f.StringVar(&c.dir, "dir", "", "`DIR` the working directory of the session")
	f.StringVar(&c.init, "init", "", "`FILE` run this file whenever the session starts")
	c.confinement.define(f)
	c.limits.define(f)
	f.StringVar(&c.envFile, "env-file", "", "`FILE` lines NAME=VALUE for the environment of the session")
}

func (c *choice) defineExecutables(f *flag.FlagSet) {
	f.StringVar(&c.python, "python", "", "`PYTHON` an interpreter, the directory of an environment, or a version such as 3.12")
	f.StringVar(&c.r, "r", "", "`R` R itself, the directory that it is installed in, or a version such as 4.3")
}

// code is the value of -e, which may be given several times. All values together are one
// program.
type code []string

func (c *code) String() string { return strings.Join(*c, "\n") }

func (c *code) Set(part string) error {
	*c = append(*c, part)
	return nil
}

// repl is the command without a subcommand: a session for a person, or one program.
func repl(f *flag.FlagSet) action {
	var c choice
	c.define(f)
	var g given
	g.define(f)
	var with wanted
	f.Var(&with, "with", withWords)
	var servers serverChoice
	servers.define(f)
	var person atTerminal
	person.define(f)
	var notes logChoice
	notes.define(f)
	return func(s streams, args []string) (int, error) {
		if err := g.parse(f, args); err != nil {
			return statusUsage, err
		}
		if err := person.check(); err != nil {
			return statusUsage, err
		}
		if (!g.is || g.stay) && terminal.Usable() {
			if err := notes.spareTerminal(f); err != nil {
				return statusUsage, err
			}
		}
		log, err := notes.logger(nil)
		if err != nil {
			return statusUsage, err
		}
		if err := servers.check(); err != nil {
			return statusUsage, err
		}
		set, err := servers.set(s.err, log, nil)
		if err != nil {
			return statusUsage, err
		}
		defer set.Close()
		more := hosting{log, set.Functions()}
		if c.sandbox, err = c.confinement.sandbox(f); err != nil {
			return statusUsage, err
		}
		c.program = g.is || !terminal.Usable()
		c.process = g.is && !g.byE && !g.stay && len(servers.sources) == 0 && !c.needsSession()
		if g.isFile() && c.isOpen() {
			c.lang = languageOfFile(g.files[0])
		}
		lang, spec, err := c.spec()
		if err != nil {
			return statusFailed, err
		}
		names, err := with.canonical([]language{lang})
		if err != nil {
			return statusUsage, err
		}
		spec = lang.needing(spec, names)
		if err := g.check(lang); err != nil {
			return statusUsage, err
		}
		if c.process && lang.process != nil {
			return runProcess(s, lang, spec, log, &g)
		}
		first := ""
		if g.is {
			if first, err = g.input(lang, &spec); err != nil {
				return statusFailed, err
			}
		}
		switch {
		case g.stay, !g.is && terminal.Usable():
			return interact(s, lang, spec, more, person, first)
		case g.is:
			return runProgram(s, lang, spec, more, program{code: first, stdin: s.in})
		}
		if term.IsTerminal(int(s.in.Fd())) {
			fmt.Fprintln(s.err, "repl: the output is no terminal, so this reads a whole program; Ctrl-D ends it")
		}
		text, err := readInput(s.in)
		if err != nil {
			return statusFailed, fmt.Errorf("cannot read the program from standard input: %w", err)
		}
		return runProgram(s, lang, spec, more, program{code: text})
	}

}

// isStarting reports whether a directory is a program, as python has it.
func isStarting(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "__main__.py"))
	return err == nil && info.Mode().IsRegular()
}

// isFile returns an error if a word is neither a command nor a file.
func isFile(name string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.IsDir():
		return nil
	case err == nil && isStarting(name):
		return nil
	case err == nil:
		return misuse("%s is a directory, and has no __main__.py to run", name)
	case !errors.Is(err, fs.ErrNotExist):
		return misuse("cannot run %s: %v", name, errors.Unwrap(err))
	}
	if l, err := languageNamed(name); err == nil {
		return misuse("%q is neither a command nor a file; did you mean repl --lang %s?", name, l.name)
	}
	var names []string
	for _, c := range commands()[1:] {
		names = append(names, c.name)
	}
	if n := nearest(name, names); n != "" {
		return misuse("%q is neither a command nor a file; did you mean repl %s?", name, n)
	}
	return misuse("%q is neither a command nor a file (see repl help)", name)
}

// interact runs the session of a person at a terminal, after a first input if there is one.
func interact(s streams, lang language, spec workers.Spec, more hosting, person atTerminal, first string) (int, error) {
	spec.UserTerminal = !isDumb()
	return inSession(s, spec, more, func(ctx context.Context, session *supervisor.Session) (int, error) {
		if first != "" {
			if _, err := session.Submit(ctx, first); err != nil { // an exit leads to the prompt, as with python -i
				return statusFailed, err
			}
		}
		o := person.options(lang, spec.Dir)
		if spec.UserTerminal {
			o.Programs = session
		}
		return terminal.Run(ctx, session, o)
	})
}

// hosting is what a session of this program's own has beside its spec.
type hosting struct {
	log       *slog.Logger
	functions []supervisor.Function // of --servers
}

// inSession runs use with a new session, once it is prepared, and a context that ends with
// the signals that ask a program to end. After such a signal the status shows it.
func inSession(s streams, spec workers.Spec, more hosting, use func(context.Context, *supervisor.Session) (int, error)) (int, error) {
	ctx, stop := catchSignals()
	defer stop()
	// Only the user sees the output, and a program's output must not be changed.
	sup, err := supervisor.New(&supervisor.Options{ShowSecrets: true, Logger: more.log, Functions: more.functions, Memory: (&limitFlags{spec.Limits}).together(), Grants: keptFile(), GrantHint: remedyLater})
	if err != nil {
		return statusFailed, err
	}
	defer sup.Close()
	session, err := sup.Open(ctx, "main", spec)
	if err != nil {
		return statusFailed, err
	}
	if status, err := prepare(s, session); err != nil || status != statusDone {
		return status, err
	}
	status, err := use(ctx, session)
	if signalled, ok := statusOf(ctx); ok {
		status = signalled
	}
	return status, err
}

// prepare waits while a session is being prepared. Ctrl-C ends that.
func prepare(s streams, session *supervisor.Session) (int, error) {
	ctx, stop := catchSignals(os.Interrupt)
	defer stop()
	now, err := session.Info(ctx)
	if err == nil {
		err = awaitPrepared(ctx, s.err, session, now)
	}
	if status, signalled := statusOf(ctx); signalled {
		return status, nil
	}
	if err == nil {
		err = session.WaitPrepared(ctx)
	}
	if err != nil {
		return statusFailed, err
	}
	return statusDone, nil
}

// stateDir returns the directory for files that outlive the command; "" when there is no
// place.
func stateDir() string {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) { // the specification says to ignore relative ones
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "turnstone")
}
