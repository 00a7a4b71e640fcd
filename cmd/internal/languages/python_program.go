package languages

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/workers"
)

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

// isZipFile reports whether a file is a zip file, with anything before it.
func isZipFile(path string) bool {
	z, err := zip.OpenReader(path)
	if err != nil {
		return false
	}
	return z.Close() == nil
}

// setArgvCode returns code that sets sys.argv and sys.orig_argv. A program can restart itself with
// the latter, in which words replace the name.
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
