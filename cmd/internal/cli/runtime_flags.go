package cli

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// runtimeFlags holds the flags that all commands which start a runtime share.
type runtimeFlags struct {
	lang, python, r, dir string
	worker               languages.WorkerFlag
	initFile, envFile    string
	env                  []string // from envFile
	sandboxFlags         sandboxFlags
	sandbox              *workers.Sandbox // from sandboxFlags
	remoteSandbox        *workers.Sandbox // likewise, for sessions at additional remotes
	limits               cmdflags.LimitFlags
	isRemote             bool // the session is on another machine
	isProgram            bool // it runs a whole program
	asProcess            bool // the program is the runtime's own process, if the language supports that
}

// addFlags adds the flags that choose and configure the runtime.
func (r *runtimeFlags) addFlags(f *flag.FlagSet) {
	f.Var(languages.LanguageFlag{Target: &r.lang}, "lang", languages.LangUsage())
	f.Var(&r.worker, "worker", cmdkit.WorkerUsage)
	r.addInterpreterFlags(f)
	f.StringVar(&r.dir, "dir", "", "`DIR` the working directory of the session")
	f.StringVar(&r.initFile, "init", "", "`FILE` run this file whenever the session starts")
	r.sandboxFlags.addFlags(f)
	r.limits.AddFlags(f)
	f.StringVar(&r.envFile, "env-file", "", "`FILE` variables for the session, in lines NAME=VALUE")
}

func (r *runtimeFlags) addInterpreterFlags(f *flag.FlagSet) {
	f.StringVar(&r.python, "python", "", "`PYTHON` an interpreter, the directory of an environment, or a version such as 3.12")
	f.StringVar(&r.r, "r", "", "`R` an R executable, the directory of an installation, or a version such as 4.3")
}

// resolveRuntime checks the flags and finds the runtime.
func (r runtimeFlags) resolveRuntime() (languages.Language, workers.Spec, error) {
	if r.lang == "" && r.python == "" && r.r != "" {
		r.lang = "r"
	}
	custom, ok, err := r.worker.SingleWorker(r.lang)
	if err != nil {
		return languages.Language{}, workers.Spec{}, err
	}
	if ok {
		r.lang = custom.Name
	}
	l, err := r.findLanguage(r.lang)
	if err != nil {
		return l, workers.Spec{}, err
	}
	if err := r.checkExecutable(l); err != nil {
		return l, workers.Spec{}, err
	}
	if err := r.resolvePaths(); err != nil {
		return l, workers.Spec{}, err
	}
	s, err := r.languageSpec(l)
	return l, s, err
}

// findLanguage finds a language by its name, including those of --worker.
func (r runtimeFlags) findLanguage(name string) (languages.Language, error) {
	if custom, ok := r.worker.FindWorker(name); ok {
		return custom.ToLanguage(), nil
	}
	return languages.FindLanguage(name)
}

// needsSession reports whether a flag needs the supervisor.
func (r runtimeFlags) needsSession() bool {
	return r.sandbox.Confines() || r.limits.Limits != (workers.Limits{}) || r.initFile != ""
}

// hasNoLanguage reports whether no flag names a language.
func (r runtimeFlags) hasNoLanguage() bool {
	return r.lang == "" && r.python == "" && r.r == "" && len(r.worker) == 0
}

// interpreterFor returns the runtime that was named for a language, or "".
func (r runtimeFlags) interpreterFor(l languages.Language) string {
	return map[string]string{"python": r.python, "r": r.r}[l.Name]
}

// runtimeInDaemon returns the runtime for a session that a daemon creates. It is the named one, or
// for Python the active environment, because the daemon has an environment of its own. "" leaves
// the choice to the daemon. A local environment means nothing at a remote.
func (r runtimeFlags) runtimeInDaemon(l languages.Language) string {
	named := r.interpreterFor(l)
	switch here, err := filepath.Abs(named); {
	case r.isRemote || named == "" && l.Name != "python":
		return named
	case named == "":
	case err == nil && r.dir == "" && fileExists(here): // the daemon works in another directory
		return here
	default:
		return named
	}
	found, searched, err := python.Find(python.FindOptions{Dir: r.dir})
	if err != nil || !strings.HasPrefix(searched[len(searched)-1].Source, "active ") {
		return ""
	}
	return found.Path
}

// checkExecutable rejects --python or --r for a language that the command line excludes.
func (r runtimeFlags) checkExecutable(only languages.Language) error {
	for _, other := range languages.AvailableLanguages() {
		if name := r.interpreterFor(other); name != "" && other.Name != only.Name {
			return cmdkit.UsageErrorf("--%s %s does not match --lang %s", other.Name, name, only.Name)
		}
	}
	return nil
}

// resolvePaths checks the limits and the named directory and files, and makes the paths absolute.
func (r *runtimeFlags) resolvePaths() (err error) {
	if err := r.limits.ValidateLimits(); err != nil {
		return err
	}
	if r.envFile != "" {
		if r.env, err = readEnvFile(r.envFile); err != nil {
			return cmdkit.UsageErrorf("--env-file: %v", err)
		}
	}
	if r.initFile != "" {
		if i, err := os.Stat(r.initFile); err != nil || i.IsDir() {
			return cmdkit.UsageErrorf("--init %s: no such file", r.initFile)
		}
		if r.initFile, err = filepath.Abs(r.initFile); err != nil {
			return err
		}
	}
	if r.dir == "" {
		return nil
	}
	if r.isRemote {
		return cmdkit.RequireAbsolute("--dir", r.dir)
	}
	if i, err := os.Stat(r.dir); err != nil || !i.IsDir() {
		return cmdkit.UsageErrorf("--dir %s: not a directory", r.dir)
	}
	r.dir, err = filepath.Abs(r.dir)
	return err
}

// languageSpec finds the runtime of a language. Naming an interpreter that does not work is a usage
// error.
func (r runtimeFlags) languageSpec(l languages.Language) (workers.Spec, error) {
	s := l.NewSpec(r.interpreterFor(l), r.dir, r.runtimeSettings())
	s.Sandbox, s.Limits = r.sandbox, r.limits.Limits
	if s.Err != nil && r.interpreterFor(l) != "" {
		return s, cmdkit.UsageErrorf("%v", s.Err)
	}
	return s, s.Err
}

func (r runtimeFlags) runtimeSettings() languages.RuntimeSettings {
	return languages.RuntimeSettings{Env: r.env, InitFile: r.initFile, IsProgram: r.isProgram, AsProcess: r.asProcess}
}

// chosenLanguages returns the languages of --worker and --lang.
func (r runtimeFlags) chosenLanguages() (chosen []languages.Language, err error) {
	for _, own := range r.worker {
		chosen = append(chosen, own.ToLanguage())
	}
	if r.lang == "" {
		return chosen, nil
	}
	l, err := languages.FindLanguage(r.lang)
	if err == nil {
		err = r.checkExecutable(l)
	}
	return append(chosen, l), err
}

// languagesOrAll returns the chosen languages, or all if none is chosen.
func (r runtimeFlags) languagesOrAll() (chosen []languages.Language, named bool, err error) {
	if chosen, err = r.chosenLanguages(); err != nil || r.lang != "" {
		return chosen, true, err
	}
	for _, l := range languages.AvailableLanguages() {
		if r.interpreterFor(l) != "" {
			chosen = append(chosen, l)
		}
	}
	if len(chosen) > 0 {
		return chosen, true, nil
	}
	chosen, err = languages.AllLanguages()
	return chosen, false, err
}

// offeredLanguages returns the languages for an agent: the chosen ones, or all.
func (r runtimeFlags) offeredLanguages() ([]languages.Language, error) {
	if chosen, err := r.chosenLanguages(); err != nil || len(chosen) > 0 {
		return chosen, err
	}
	return languages.AllLanguages()
}

// forRemotes returns the flags for the additional remotes. They keep no directories or programs,
// which exist only at the default daemon.
func (r runtimeFlags) forRemotes() runtimeFlags {
	return runtimeFlags{lang: r.lang, limits: r.limits, sandbox: r.remoteSandbox, isRemote: true}
}

// fileExists reports whether a path exists.
func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// clientServerArgs returns the arguments with which a client starts the server: the choices in f, with
// paths that do not depend on the client's working directory.
func clientServerArgs(r *runtimeFlags, f *flag.FlagSet) ([]string, error) {
	all, _, err := r.languagesOrAll()
	if err == nil {
		err = r.resolvePaths()
	}
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if r.interpreterFor(l) != "" { // otherwise the search waits until a session is opened
			if _, err := r.languageSpec(l); err != nil {
				return nil, err
			}
		}
	}
	if r.initFile != "" && r.lang == "" {
		return nil, cmdkit.UsageErrorf("--init: name the language of the file with --lang")
	}
	chosen := cmdkit.NewFlags("")
	new(runtimeFlags).addFlags(chosen)
	args := []string{"mcp"}
	if r.sandbox, err = r.sandboxFlags.buildSandbox(f); err != nil {
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
		if _, e := os.Stat(value); e == nil && !slices.Contains([]string{"lang", "sandbox", "sandbox-fallback", "home-access", "network", "ask-permission", "memory", "processes", "cpus", "open-files", "disk", "turn-timeout"}, set.Name) {
			value, e = filepath.Abs(value)
			err = errors.Join(err, e)
		}
		args = append(args, "--"+set.Name, value)
	})
	return args, err
}
