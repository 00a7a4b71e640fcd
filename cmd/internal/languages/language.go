package languages

import (
	"archive/zip"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/export"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelspec"
	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit"
	"github.com/turnstone-repl/turnstone/cmd/internal/pkginstall"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
	"github.com/turnstone-repl/turnstone/workers/python"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// StandardInput in place of a file means that the program is read from standard input.
const StandardInput = "-"

// A Language holds what the command must know about a language and no worker can tell.
type Language struct {
	Name         string
	aliases      []string // other names that people use
	Display      string   // as people write it: "Python"
	Continuation string   // the prompt for further lines of an input
	Syntax       *lineedit.Syntax

	// NewSpec finds the runtime. executable and dir are the user's choices, or "".
	NewSpec func(executable, dir string, more RuntimeSettings) workers.Spec

	// FileInput returns an input that runs a file as a program of its own. path is absolute or
	// standardInput; name is the path as given. It may change how the runtime starts.
	FileInput func(s *workers.Spec, path, name string, args []string) (input string, err error)

	// OptionInput returns an input for an option of the language's own command: -c and code, or -m
	// and a module. nil means that the language has no such options.
	OptionInput func(option, text string, args []string) string

	// ProcessArgs returns the runtime's arguments to run a program as its own process. option is -c
	// or -m, or "" for a file. nil means that all code runs in a worker.
	ProcessArgs func(option, text string, args []string) []string

	// TranslateInput translates what people type at other prompts into code of the language; an
	// error says what to type. nil changes nothing. Only a user's input is translated.
	TranslateInput func(code string) (string, error)

	// QuitInput is an input that makes the runtime exit as at the end of a program.
	QuitInput string

	// Candidates returns the places that newSpec searches.
	Candidates func(executable, dir string) []workers.Candidate

	Export export.NotebookLanguage

	// Packages installs more packages.
	Packages *pkginstall.Tool

	// Dialect returns the code with which a worker is checked; a zero value checks less. It may
	// read a file.
	Dialect func() (conformance.Dialect, error)
}

// RuntimeSettings are settings of a runtime besides the environment that it inherits.
type RuntimeSettings struct {
	Env       []string // as in workers.Spec
	InitFile  string   // an absolute path, run at the start; "" for none
	IsProgram bool     // an input is a whole program
	AsProcess bool     // run the program as the runtime's own process, without a worker
}

// hasName reports whether the language has a name.
func (l Language) hasName(name string) bool {
	return name == l.Name || slices.Contains(l.aliases, name)
}

// All returns all languages in the order of the help; the first is the default. An error
// means that the user's file cannot be read and that its languages are missing.
func All() ([]Language, error) {
	own, err := userLanguages()
	return append(builtinLanguages(), own...), err
}

// Available returns all languages that can be determined, ignoring an unreadable user
// file.
func Available() []Language {
	all, _ := All()
	return all
}

// builtinLanguages returns the languages that do not come from the user's file.
func builtinLanguages() []Language {
	return []Language{{
		Name:         "python",
		aliases:      []string{"py", "python3"},
		Display:      "Python",
		Continuation: "... ",
		Syntax:       lineedit.Python,
		NewSpec: func(executable, dir string, more RuntimeSettings) workers.Spec {
			if more.AsProcess {
				return python.InterpreterSpec(python.Options{Path: executable, Dir: dir, Env: more.Env})
			}
			env, file := pythonInit(more)
			return withInitFile(python.Spec(python.Options{Path: executable, Dir: dir, Env: env, SingleProgram: more.IsProgram}), "init-file.py", file)
		},
		FileInput:      pythonFileInput,
		OptionInput:    pythonOptionInput,
		ProcessArgs:    pythonProcessArgs,
		TranslateInput: translatePythonInput,
		QuitInput:      `raise __import__("builtins").SystemExit`, // the program may have redefined the name
		Candidates: func(executable, dir string) []workers.Candidate {
			_, searched, _ := python.Find(python.FindOptions{Path: executable, Dir: dir})
			return searched
		},
		Export:   export.NotebookLanguage{Display: "Python", Extension: "py", Comment: "#", Kernel: "python3", JupyterName: "python"},
		Packages: pkginstall.Python(),
		Dialect:  func() (conformance.Dialect, error) { return conformance.PythonDialect(), nil },
	}, {
		Name:         "r",
		aliases:      []string{"rlang"},
		Display:      "R",
		Continuation: "+ ",
		Syntax:       lineedit.R,
		NewSpec: func(executable, dir string, more RuntimeSettings) workers.Spec {
			if more.AsProcess {
				return r.InterpreterSpec(r.Options{Path: executable, Dir: dir, Env: more.Env})
			}
			env, file := rInit(more)
			return withInitFile(r.Spec(r.Options{Path: executable, Dir: dir, Env: env, SingleProgram: more.IsProgram}), "init-file.R", file)
		},
		FileInput:   rFileInput,
		ProcessArgs: rProcessArgs,
		QuitInput:   `base::quit(save = "no")`,
		Candidates: func(executable, dir string) []workers.Candidate {
			_, searched, _ := r.Find(r.FindOptions{Path: executable, Dir: dir})
			return searched
		},
		Export:   export.NotebookLanguage{Display: "R", Extension: "R", Comment: "#", Kernel: "ir", JupyterName: "R"},
		Packages: pkginstall.R(),
		Dialect:  func() (conformance.Dialect, error) { return conformance.RDialect(), nil },
	}}
}

// withInitFile adds a file to a spec. The runtime runs it at the start, and it runs the user's
// --init file.
func withInitFile(s workers.Spec, name, text string) workers.Spec {
	if text != "" && s.Files != nil {
		s.Files = maps.Clone(s.Files)
		s.Files[name] = []byte(text)
	}
	return s
}

// lookupEnv returns the user's value of a variable that --init replaces, and whether it is set.
func (s RuntimeSettings) lookupEnv(name string) (value string, set bool) {
	if value, set = environ.Lookup(s.Env, name); set {
		return value, true
	}
	return os.LookupEnv(name)
}

// pythonInit makes Python run a file right after the user's PYTHONSTARTUP.
func pythonInit(m RuntimeSettings) (env []string, file string) {
	if m.InitFile == "" {
		return m.Env, ""
	}
	users, restore := "None", `os.environ.pop("PYTHONSTARTUP", None)`
	if value, set := m.lookupEnv("PYTHONSTARTUP"); set {
		users = pythonString(value)
		restore = `os.environ["PYTHONSTARTUP"] = users`
	}
	return append(slices.Clip(m.Env), "PYTHONSTARTUP="+workers.FilesDir+"/init-file.py"), fmt.Sprintf(`
def _turnstone_init(users, path, space):
    import io, os, traceback
    %s
    for name in filter(None, (users, path)):
        try:
            with io.open_code(name) as file:
                code = compile(file.read(), name, "exec", dont_inherit=True)
            exec(code, space)
        except Exception:
            traceback.print_exc()
globals().pop("_turnstone_init")(%s, %s, globals())
`, restore, users, pythonString(m.InitFile))
}

// rInit makes R run a file right after the user's profile, with the default packages attached as at
// the prompt.
func rInit(m RuntimeSettings) (env []string, file string) {
	if m.InitFile == "" {
		return m.Env, ""
	}
	users, restore := `if (file.exists(".Rprofile")) ".Rprofile" else "~/.Rprofile"`, `Sys.unsetenv("R_PROFILE_USER")`
	if value, set := m.lookupEnv("R_PROFILE_USER"); set {
		users, restore = strconv.Quote(value), `Sys.setenv(R_PROFILE_USER = users)`
	}
	return append(slices.Clip(m.Env), "R_PROFILE_USER="+workers.FilesDir+"/init-file.R"), fmt.Sprintf(`local({
    users <- %s
    %s
    if (nzchar(users) && file.exists(users)) base::sys.source(users, envir = globalenv())
    base::.First.sys()
    base::sys.source(%s, envir = globalenv())
})
`, users, restore, strconv.Quote(m.InitFile))
}

// pythonFileInput runs a file in __main__ under its own name, which tracebacks, inspect and
// multiprocessing use. Like python, it runs the __main__.py of a directory or a zip file.
func pythonFileInput(_ *workers.Spec, path, name string, args []string) (string, error) {
	if path == StandardInput {
		code, err := readProgram(path)
		return pythonOptionInput(path, code, args), err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	first := filepath.Dir(paths.RealOrSame(path))
	run := `exec(compile(__import__("io").open_code(space["__file__"]).read(), space["__file__"], "exec", dont_inherit=True), space)`
	switch {
	case !info.IsDir() && (!info.Mode().IsRegular() || strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")): // it may exist only for this process and be readable only once
		code, err := readProgram(path)
		if err != nil {
			return "", err
		}
		run = runTextCode(path, code, true)
	case filepath.Ext(path) == ".pyc":
		run = `exec(__import__("importlib.machinery").machinery.SourcelessFileLoader("__main__", space["__file__"]).get_code("__main__"), space)`
	case info.IsDir(), isZipFile(path):
		first, run = path, `__import__("runpy")._run_module_as_main("__main__", False)`
	}
	return fmt.Sprintf(`__file__ = %s
%s
if __import__("sys").path[:1] == [""]: __import__("sys").path[0] = %s
%s
`, pythonString(path), setArgvCode(name, args, name), pythonString(first), programCode(run)), nil
}

// isZipFile reports whether a file is a zip file, with anything before it.
func isZipFile(path string) bool {
	z, err := zip.OpenReader(path)
	if err != nil {
		return false
	}
	return z.Close() == nil
}

// setArgvCode returns code that sets sys.argv, and sys.orig_argv, with which a program restarts
// itself. In orig_argv, words replace the name.
func setArgvCode(name string, args []string, words ...string) string {
	list := func(texts ...string) string {
		quoted := make([]string, len(texts))
		for i, t := range texts {
			quoted[i] = pythonString(t)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return fmt.Sprintf(`__import__("sys").argv[:] = %s
if hasattr(__import__("sys"), "orig_argv"): __import__("sys").orig_argv[1:] = %s`,
		list(slices.Concat([]string{name}, args)...), list(slices.Concat(words, args)...))
}

// runTextCode returns code that runs a text under a name. Tracebacks show its lines. The text of a
// file may declare its encoding.
func runTextCode(name, text string, file bool) string {
	code := "text"
	if file {
		code = `text.encode("utf-8", "surrogateescape")`
	}
	return fmt.Sprintf(`text = %[2]s
__import__("linecache").cache[%[1]s] = (0, None, list(__import__("io").StringIO(text)), %[1]s)
exec(compile(%[3]s, %[1]s, "exec", dont_inherit=True), space)`, pythonString(name), pythonString(text), code)
}

// programCode returns our code wrapped so that it runs a program in the namespace space. The worker
// recognizes its module name and hides it and the input from the program's view of the stack.
func programCode(code string) string {
	return fmt.Sprintf(`exec(%s, {"__name__": "turnstone_worker.program", "space": globals()})`, pythonString(code))
}

// pythonOptionInput runs code or a module as python does with -c, - or -m: values are not shown.
func pythonOptionInput(option, text string, args []string) string {
	run, words := "", []string{option}
	switch option {
	case "-m": // python puts the module's own name into argv
		words = append(words, text)
		run = `if __import__("sys").path[:1] == [""]: __import__("sys").path[0] = __import__("os").getcwd()` + "\n" + fmt.Sprintf(`__import__("runpy")._run_module_as_main(%s)`, pythonString(text))
	case "-c":
		words = append(words, text)
		run = runTextCode("<string>", text, false)
	case StandardInput:
		run = `space["__file__"] = "<stdin>"` + "\n" + runTextCode("<stdin>", text, true)
	}
	return setArgvCode(option, args, words...) + "\n" + programCode(run) + "\n"
}

// rFileInput runs a file as Rscript does: R reads the file instead of a console, so it prints every
// value at the top level, and stdin() is the file.
func rFileInput(s *workers.Spec, path, _ string, args []string) (string, error) {
	if len(args) > 0 {
		s.Args = slices.Concat(s.Args, []string{"--args"}, args)
	}
	return readProgram(path)
}

// pythonProcessArgs returns python's own arguments for a program.
func pythonProcessArgs(option, text string, args []string) []string {
	switch {
	case option != "":
		return slices.Concat([]string{option, text}, args)
	case text != StandardInput && strings.HasPrefix(text, "-"):
		return slices.Concat([]string{"--", text}, args)
	}
	return slices.Concat([]string{text}, args)
}

// rProcessArgs returns the arguments with which Rscript starts R.
func rProcessArgs(_, file string, args []string) []string {
	words := []string{"--no-echo", "--no-restore", "--file=" + file}
	if len(args) > 0 {
		words = slices.Concat(words, []string{"--args"}, args)
	}
	return words
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

// pythonString returns a Python literal for a string of the operating system. Python represents
// bytes that are not UTF-8 as lone surrogates.
func pythonString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '\uFFFD' && s[i] >= 0x80 && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\udc%02x`, s[i])
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			if r == '"' {
				quoted = `'\"'`
			} else if r == '\'' {
				quoted = `'''`
			}
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Find finds a language by one of its names, in upper or lower case. "" is the first
// language.
func Find(name string) (Language, error) {
	if kernel, ok := cutKernelPrefix(name); ok {
		return findKernel(kernel)
	}
	all, fileErr := All()
	if name == "" {
		return all[0], nil
	}
	var names []string
	for _, l := range all {
		if l.hasName(strings.ToLower(name)) {
			return l, nil
		}
		names = append(names, l.Name)
	}
	if fileErr != nil {
		return Language{}, fileErr
	}
	long := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return len(n) < 3 }) // any word is close to a one-letter name
	if n := cmdkit.NearestName(strings.ToLower(name), long); n != "" {
		return Language{}, cmdkit.UsageErrorf("unknown language %q; did you mean %s?", name, n)
	}
	return Language{}, cmdkit.UsageErrorf("unknown language %q (have %s); add one with --worker or in %s; a Jupyter kernel is %sNAME", name, strings.Join(names, ", "), workersFile(), JupyterPrefix)
}

// OfSession returns the language of an existing session. This command may know nothing about
// its worker.
func OfSession(name string) Language {
	l, err := Find(name)
	if kernel, ok := cutKernelPrefix(name); ok && err != nil {
		return kernelLanguage(kernelspec.KernelSpec{Name: kernel})
	}
	if err != nil || name == "" {
		return newWorkerLanguage(cmp.Or(name, "session"), userconfig.CustomWorker{}, "")
	}
	return l
}

// OfFile returns the language whose scripts have names like this, or "".
func OfFile(path string) string {
	extension := strings.TrimPrefix(filepath.Ext(path), ".")
	for _, l := range Available() {
		if extension != "" && extension != "txt" && strings.EqualFold(extension, l.Export.Extension) {
			return l.Name
		}
	}
	return ""
}

// A LanguageFlag is the value of --lang: the canonical name of the language, if it is known.
type LanguageFlag struct{ Target *string }

func (l LanguageFlag) String() string {
	if l.Target == nil {
		return ""
	}
	return *l.Target
}

// Set accepts an unknown name; it is rejected when the language is needed.
func (l LanguageFlag) Set(name string) error {
	if known, err := Find(name); err == nil && name != "" {
		name = known.Name
	}
	*l.Target = name
	return nil
}

// LangUsage describes --lang in the help of a command.
func LangUsage() string {
	return "`" + Choices() + "` the language"
}

// Choices returns the names of all languages, as the help shows a choice.
func Choices() string {
	var names []string
	for _, l := range Available() {
		names = append(names, l.Name)
	}
	return strings.Join(names, "|")
}

// FormatUsage describes --format in the help of a command.
func FormatUsage() string {
	var all []string
	for _, l := range Available() {
		for _, f := range l.Export.Formats() {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return "`" + strings.Join(all, "|") + "` the format; default a script"
}

// Has reports whether a daemon currently has a language. It looks for a Jupyter kernel only
// if one is asked for.
func Has(name string) bool {
	if kernel, ok := strings.CutPrefix(name, JupyterPrefix); ok {
		return slices.ContainsFunc(InstalledKernels(), func(k kernelspec.KernelSpec) bool { return k.Name == kernel })
	}
	return slices.ContainsFunc(Available(), func(l Language) bool { return l.Name == name })
}

// Names returns the languages that a daemon has. It finds the Jupyter kernels with its own
// environment.
func Names() []string {
	var names []string
	for _, l := range Available() {
		names = append(names, l.Name)
	}
	for _, k := range InstalledKernels() {
		names = append(names, JupyterPrefix+k.Name)
	}
	return names
}
