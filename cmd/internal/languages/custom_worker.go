package languages

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kballard/go-shellquote"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/export"
	"github.com/turnstone-repl/turnstone/cmd/internal/pkginstall"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
)

// workersFile returns the user's file of custom workers.
func workersFile() string { return userconfig.WorkersFile(os.Getenv) }

// userLanguages returns the languages of the user's file, sorted by name. With an error it returns
// none; commands that need none of them still work.
func userLanguages() ([]Language, error) {
	file := workersFile()
	all, err := userconfig.ReadWorkers(file)
	if err != nil {
		return nil, cmdkit.UsageErrorf("%v", err)
	}
	var own []Language
	owners := make(map[string]string) // a name or alias, and the language that owns it
	for _, l := range builtinLanguages() {
		for _, n := range append([]string{l.Name}, l.aliases...) {
			owners[n] = l.Name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, n := range append([]string{name}, all[name].Aliases...) {
			if of, ok := owners[n]; ok {
				return nil, cmdkit.UsageErrorf("%s: %s cannot be a name of %s: it is already a name of %s", file, n, name, of)
			}
			owners[n] = name
		}
		own = append(own, newWorkerLanguage(name, all[name], "[workers."+name+"] in "+file))
	}
	return own, nil
}

// newWorkerLanguage returns the language of a custom worker. Only the user's settings are known about
// it. why says where the user chose it.
func newWorkerLanguage(name string, w userconfig.CustomWorker, why string) Language {
	display := w.Display
	if display == "" {
		display = strings.ToUpper(name[:1]) + name[1:]
	}
	l := Language{
		Name:         name,
		aliases:      w.Aliases,
		Display:      display,
		Continuation: w.Continuation,
		NewSpec: func(_, dir string, more RuntimeSettings) workers.Spec {
			s := workers.Spec{Name: name, Env: append(slices.Clip(w.Env), more.Env...), Dir: dir, PathSource: why}
			s.Path, s.Args, s.Err = resolveCommand(w.Command)
			if more.InitFile != "" {
				s.Err = cmdkit.UsageErrorf("--init: %s is a custom worker; only the worker itself can run a file at its start", display)
			}
			return s
		},
		FileInput:  workerFileInput,
		QuitInput:  w.Quit,
		Candidates: func(string, string) []workers.Candidate { return nil },
		Export:     export.NotebookLanguage{Display: display, Extension: w.Extension, Comment: w.Comment, Kernel: name, JupyterName: name},
		Packages:   pkginstall.UnsupportedTool(display),
		Dialect:    func() (conformance.Dialect, error) { return ReadDialect(ExpandHome(w.Dialect)) },
	}
	if l.Continuation == "" {
		l.Continuation = "... "
	}
	if l.Export.Extension == "" {
		l.Export.Extension = "txt"
	}
	if l.Export.Comment == "" {
		l.Export.Comment = "#"
	}
	return l
}

// ReadDialect reads a dialect file; "" means none.
func ReadDialect(path string) (conformance.Dialect, error) {
	if path == "" {
		return conformance.Dialect{}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return conformance.Dialect{}, err
	}
	d, err := conformance.ParseDialect(text)
	if err != nil {
		return d, fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "conformance: "))
	}
	return d, nil
}

// workerFileInput sends the contents of a file as one input, because only the worker knows how to
// run a file. args are added to the worker's own arguments.
func workerFileInput(s *workers.Spec, path, _ string, args []string) (string, error) {
	s.Args = slices.Concat(s.Args, args)
	return readProgram(path)
}

// resolveCommand finds the program of a command. The result does not depend on the worker's working
// directory.
func resolveCommand(command []string) (path string, args []string, err error) {
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = ExpandHome(word)
	}
	if strings.ContainsAny(words[0], `/\`) && !filepath.IsAbs(words[0]) {
		return "", nil, fmt.Errorf("the command %q is not an absolute path", words[0])
	}
	if path, err = FindProgram(words[0]); err != nil {
		return "", nil, fmt.Errorf("cannot run the worker: %w", err)
	}
	return path, words[1:], nil
}

// FindProgram returns the absolute path of a program, which may be a name on PATH.
func FindProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// ExpandHome replaces "~/" at the beginning of a word by the home directory.
func ExpandHome(word string) string {
	rest, ok := strings.CutPrefix(word, "~/")
	home, err := os.UserHomeDir()
	if !ok || err != nil {
		return word
	}
	return filepath.Join(home, rest)
}

// WorkerFlag is the value of --worker: the custom workers, since the flag may be repeated.
type WorkerFlag []UserWorker

// A UserWorker is the command of a custom worker and the name of its language.
type UserWorker struct {
	Name    string
	Command []string
}

// ToLanguage returns the language of the worker. The command is not looked up before NewSpec of
// that language is called.
func (w UserWorker) ToLanguage() Language {
	return newWorkerLanguage(w.Name, userconfig.CustomWorker{Command: w.Command}, "--worker")
}

// String returns the values in the form that Set accepts, one a line.
func (w *WorkerFlag) String() string { return strings.Join(w.FlagValues(), "\n") }

// FlagValues returns the values in the form that Set accepts, one for each worker.
func (w *WorkerFlag) FlagValues() []string {
	var all []string
	for _, o := range *w {
		all = append(all, o.Name+"="+shellquote.Join(o.Command...))
	}
	return all
}

// Set accepts NAME=COMMAND, or COMMAND, which is then named after its program. Words of the command
// that are files become absolute paths, since the worker starts in the directory of its session.
func (w *WorkerFlag) Set(text string) error {
	name, command, named := strings.Cut(text, "=")
	if !named || !userconfig.IsWorkerName(name) {
		name, command = "", text
	}
	words, err := shellquote.Split(command)
	if err == nil && len(words) == 0 {
		err = fmt.Errorf("missing command")
	}
	if err != nil {
		return err
	}
	if words[0], err = FindProgram(ExpandHome(words[0])); err != nil {
		return err
	}
	for i, word := range words[1:] {
		if info, err := os.Stat(ExpandHome(word)); err == nil && info.Mode().IsRegular() {
			if words[i+1], err = filepath.Abs(ExpandHome(word)); err != nil {
				return err
			}
		}
	}
	if name == "" {
		base, _, _ := strings.Cut(filepath.Base(words[0]), ".")
		if name = strings.ToLower(base); !userconfig.IsWorkerName(name) {
			return fmt.Errorf("invalid language name %q; write NAME=COMMAND", base)
		}
	}
	for _, l := range builtinLanguages() {
		if l.hasName(name) {
			return fmt.Errorf("%q is a name of %s; write NAME=COMMAND", name, l.Display)
		}
	}
	if slices.ContainsFunc(*w, func(o UserWorker) bool { return o.Name == name }) {
		return fmt.Errorf("two workers are called %s", name)
	}
	*w = append(*w, UserWorker{name, words})
	return nil
}

// FindWorker returns the worker with a name.
func (w WorkerFlag) FindWorker(name string) (UserWorker, bool) {
	i := slices.IndexFunc(w, func(o UserWorker) bool { return o.Name == name })
	if i < 0 {
		return UserWorker{}, false
	}
	return w[i], true
}

// SingleWorker returns the worker for a command that has only one session.
func (w WorkerFlag) SingleWorker(lang string) (UserWorker, bool, error) {
	switch {
	case len(w) == 0:
		return UserWorker{}, false, nil
	case len(w) > 1:
		return UserWorker{}, false, cmdkit.UsageErrorf("--worker: a single session needs a single worker")
	case lang != "" && lang != w[0].Name:
		return UserWorker{}, false, cmdkit.UsageErrorf("use either --lang %s or --worker, not both", lang)
	}
	return w[0], true, nil
}
