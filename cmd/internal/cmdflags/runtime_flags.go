package cmdflags

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// RuntimeFlags holds the flags of all commands that start a runtime.
type RuntimeFlags struct {
	Lang, Python, R, Dir string
	Worker               languages.WorkerFlag
	InitFile, EnvFile    string
	RequiresPython       string   // conditions for the version of Python, of Needs
	Term                 string   // as in workers.Spec
	env                  []string // from EnvFile
	SandboxFlags         SandboxFlags
	Sandbox              *sandbox.Policy // from SandboxFlags
	RemoteSandbox        *sandbox.Policy // likewise, for sessions at additional remotes
	Limits               LimitFlags
	IsRemote             bool // the session is on another machine
	IsProgram            bool // it runs a whole program
	AsProcess            bool // the program is the runtime's own process, if the language supports that
}

// AddFlags adds the flags that choose and configure the runtime.
func (r *RuntimeFlags) AddFlags(f *flag.FlagSet) {
	f.Var(languages.LanguageFlag{Target: &r.Lang}, "lang", languages.LangUsage())
	f.Var(&r.Worker, "worker", cmdkit.WorkerUsage)
	r.AddInterpreterFlags(f)
	f.StringVar(&r.Dir, "dir", "", "`DIR` the working directory of the session")
	r.AddTermFlag(f)
	f.StringVar(&r.InitFile, "init", "", "`FILE` run this file whenever the session starts")
	cmdkit.AddFlagGroups(f, &r.SandboxFlags, &r.Limits)
	f.StringVar(&r.EnvFile, "env-file", "", "`FILE` variables for the session, in lines NAME=VALUE")
}

// AddInterpreterFlags adds the flags that name an interpreter of Python or R.
func (r *RuntimeFlags) AddInterpreterFlags(f *flag.FlagSet) {
	f.StringVar(&r.Python, "python", "", "`PYTHON` an interpreter, the directory of an environment, or a version such as 3.12")
	f.StringVar(&r.R, "r", "", "`R` an R executable, the directory of an installation, or a version such as 4.3")
}

// AddTermFlag adds the flag that names the terminal of a session.
func (r *RuntimeFlags) AddTermFlag(f *flag.FlagSet) {
	f.StringVar(&r.Term, "term", "", "`NAME` the TERM of programs in the session, such as xterm-256color for those that draw; default dumb, or your own terminal where you use it")
}

// ResolveRuntime checks the flags and finds the runtime.
func (r RuntimeFlags) ResolveRuntime() (languages.Language, workers.Spec, error) {
	if r.Lang == "" && r.Python == "" && r.R != "" {
		r.Lang = "r"
	}
	custom, ok, err := r.Worker.SingleWorker(r.Lang)
	if err != nil {
		return languages.Language{}, workers.Spec{}, err
	}
	if ok {
		r.Lang = custom.Name
	}
	l, err := r.FindLanguage(r.Lang)
	if err != nil {
		return l, workers.Spec{}, err
	}
	if err := r.CheckExecutable(l); err != nil {
		return l, workers.Spec{}, err
	}
	if err := r.ResolvePaths(); err != nil {
		return l, workers.Spec{}, err
	}
	s, err := r.LanguageSpec(l)
	return l, s, err
}

// FindLanguage finds a language by its name, including those of --worker.
func (r RuntimeFlags) FindLanguage(name string) (languages.Language, error) {
	if custom, ok := r.Worker.FindWorker(name); ok {
		return custom.ToLanguage(), nil
	}
	return languages.Find(name)
}

// NeedsSession reports whether a flag needs the supervisor.
func (r RuntimeFlags) NeedsSession() bool {
	return r.Sandbox.Confines() || r.Limits.Limits != (workers.Limits{}) || r.InitFile != "" || r.Term != ""
}

// HasNoLanguage reports whether no flag names a language.
func (r RuntimeFlags) HasNoLanguage() bool {
	return r.Lang == "" && r.Python == "" && r.R == "" && len(r.Worker) == 0
}

// IsPython reports whether the flags choose Python, by name or because they name no language.
func (r RuntimeFlags) IsPython() bool {
	return len(r.Worker) == 0 && (r.Lang == "python" || r.Lang == "" && (r.R == "" || r.Python != ""))
}

// InterpreterFor returns the runtime that was named for a language, or "".
func (r RuntimeFlags) InterpreterFor(l languages.Language) string {
	return map[string]string{"python": r.Python, "r": r.R}[l.Name]
}

// RuntimeInDaemon returns the runtime for a session that a daemon creates. It is the named one, or
// for Python the active environment, because the daemon has other environment variables. "" leaves
// the choice to the daemon. For a remote it is the named one or "", because the local environment
// does not exist there.
func (r RuntimeFlags) RuntimeInDaemon(l languages.Language) string {
	named := r.InterpreterFor(l)
	switch here, err := filepath.Abs(named); {
	case r.IsRemote || named == "" && l.Name != "python":
		return named
	case named == "":
	case err == nil && r.Dir == "" && fileExists(here): // the daemon works in another directory
		return here
	default:
		return named
	}
	found, searched, err := python.Find(python.FindOptions{Dir: r.Dir, Requires: r.RequiresPython})
	if err != nil || !strings.HasPrefix(searched[len(searched)-1].Source, "active ") {
		return ""
	}
	return found.Path
}

// CheckExecutable rejects --python or --r for a language that the command line excludes.
func (r RuntimeFlags) CheckExecutable(only languages.Language) error {
	for _, other := range languages.Available() {
		if name := r.InterpreterFor(other); name != "" && other.Name != only.Name {
			return cmdkit.UsageErrorf("--%s %s does not match --lang %s", other.Name, name, only.Name)
		}
	}
	return nil
}

// ResolvePaths checks the limits, the name of the terminal, and the named directory and files. It
// makes the paths absolute.
func (r *RuntimeFlags) ResolvePaths() (err error) {
	if r.Term != "" && !workers.IsTermName(r.Term) {
		return cmdkit.UsageErrorf("--term %q: use the name of a terminal, such as xterm-256color", r.Term)
	}
	if err := r.Limits.ValidateLimits(); err != nil {
		return err
	}
	if r.EnvFile != "" {
		if r.env, err = readEnvFile(r.EnvFile); err != nil {
			return cmdkit.UsageErrorf("--env-file: %v", err)
		}
	}
	if r.InitFile != "" {
		if i, err := os.Stat(r.InitFile); err != nil || i.IsDir() {
			return cmdkit.UsageErrorf("--init %s: no such file", r.InitFile)
		}
		if r.InitFile, err = filepath.Abs(r.InitFile); err != nil {
			return err
		}
	}
	if r.Dir == "" {
		return nil
	}
	if r.IsRemote {
		return cmdkit.RequireAbsolute("--dir", r.Dir)
	}
	if i, err := os.Stat(r.Dir); err != nil || !i.IsDir() { // the directory may also come from a client
		return cmdkit.UsageErrorf("the directory %s does not exist, or is not a directory", r.Dir)
	}
	r.Dir, err = filepath.Abs(r.Dir)
	return err
}

// LanguageSpec finds the runtime of a language. Naming an interpreter that does not work is a usage
// error.
func (r RuntimeFlags) LanguageSpec(l languages.Language) (workers.Spec, error) {
	s := l.NewSpec(r.InterpreterFor(l), r.Dir, r.RuntimeSettings())
	s.Term, s.Sandbox, s.Limits = r.Term, r.Sandbox, r.Limits.Limits
	if s.Err != nil && l.Name == "python" && r.RequiresPython != "" {
		s.Err = fmt.Errorf("%w; the block \"script\" requires Python %s", s.Err, r.RequiresPython)
	}
	if s.Err != nil && r.InterpreterFor(l) != "" {
		return s, cmdkit.UsageErrorf("%v", s.Err)
	}
	return s, s.Err
}

// RuntimeSettings returns the settings with which a language starts its runtime.
func (r RuntimeFlags) RuntimeSettings() languages.RuntimeSettings {
	return languages.RuntimeSettings{RequiresPython: r.RequiresPython, Env: r.env, InitFile: r.InitFile, IsProgram: r.IsProgram, AsProcess: r.AsProcess}
}

// chosenLanguages returns the languages of --worker and --lang.
func (r RuntimeFlags) chosenLanguages() (chosen []languages.Language, err error) {
	for _, own := range r.Worker {
		chosen = append(chosen, own.ToLanguage())
	}
	if r.Lang == "" {
		return chosen, nil
	}
	l, err := languages.Find(r.Lang)
	if err == nil {
		err = r.CheckExecutable(l)
	}
	return append(chosen, l), err
}

// LanguagesOrAll returns the chosen languages, or all if none is chosen.
func (r RuntimeFlags) LanguagesOrAll() (chosen []languages.Language, named bool, err error) {
	if chosen, err = r.chosenLanguages(); err != nil || r.Lang != "" {
		return chosen, true, err
	}
	for _, l := range languages.Available() {
		if r.InterpreterFor(l) != "" {
			chosen = append(chosen, l)
		}
	}
	if len(chosen) > 0 {
		return chosen, true, nil
	}
	chosen, err = languages.All()
	return chosen, false, err
}

// OfferedLanguages returns the languages for an agent: the chosen ones, or all.
func (r RuntimeFlags) OfferedLanguages() ([]languages.Language, error) {
	if chosen, err := r.chosenLanguages(); err != nil || len(chosen) > 0 {
		return chosen, err
	}
	return languages.All()
}

// ForRemotes returns the flags for the additional remotes. They keep no directories or programs,
// which exist only at the default daemon.
func (r RuntimeFlags) ForRemotes() RuntimeFlags {
	return RuntimeFlags{Lang: r.Lang, Term: r.Term, Limits: r.Limits, Sandbox: r.RemoteSandbox, IsRemote: true}
}

// fileExists reports whether a path exists.
func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ClientServerArgs returns the arguments with which a client starts the server: the choices in f, with
// paths that do not depend on the client's working directory.
func ClientServerArgs(r *RuntimeFlags, f *flag.FlagSet) ([]string, error) {
	all, _, err := r.LanguagesOrAll()
	if err == nil {
		err = r.ResolvePaths()
	}
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if r.InterpreterFor(l) != "" { // otherwise the search waits until a session is opened
			if _, err := r.LanguageSpec(l); err != nil {
				return nil, err
			}
		}
	}
	if r.InitFile != "" && r.Lang == "" {
		return nil, cmdkit.UsageErrorf("--init: name the language of the file with --lang")
	}
	chosen := cmdkit.NewFlags("")
	new(RuntimeFlags).AddFlags(chosen)
	args := []string{"mcp"}
	if r.Sandbox, err = r.SandboxFlags.BuildSandbox(f); err != nil {
		return nil, err
	}
	f.Visit(func(set *flag.Flag) {
		if dirs, ok := set.Value.(*pathListFlag); ok {
			for _, dir := range *dirs {
				absolute, e := filepath.Abs(dir)
				err = errors.Join(err, e)
				args = append(args, "--"+set.Name, absolute)
			}
			return
		}
		if hosts, ok := set.Value.(*cmdkit.StringList); ok {
			for _, host := range *hosts {
				args = append(args, "--"+set.Name, host)
			}
			return
		}
		if workers, ok := set.Value.(*languages.WorkerFlag); ok {
			for _, value := range workers.FlagValues() {
				args = append(args, "--"+set.Name, value)
			}
			return
		}
		value := set.Value.String()
		if chosen.Lookup(set.Name) == nil || value == "" {
			return
		}
		if _, e := os.Stat(value); e == nil && !slices.Contains([]string{"lang", "sandbox", "sandbox-fallback", "home-access", "network", "ask-permission", "memory", "term", "processes", "cpus", "open-files", "disk", "turn-timeout"}, set.Name) {
			value, e = filepath.Abs(value)
			err = errors.Join(err, e)
		}
		args = append(args, "--"+set.Name, value)
	})
	return args, err
}
