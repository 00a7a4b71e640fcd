package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// A language is what the command knows about one: everything that no worker can say.
type language struct {
	name         string
	continuation string // the prompt for the further lines of an input

	// spec finds the runtime. executable and dir are the user's choices, or "".
	spec func(executable, dir string) workers.Spec

	// file is an input that runs a file, absolute, as a program of its own.
	file func(path string, args []string) string

	// quit is an input that ends the runtime the way it ends at the end of a program.
	quit string

	// candidates says what spec looked at.
	candidates func(executable, dir string) []candidate

	dialect conformance.Dialect
}

// A candidate is one place where a runtime was looked for.
type candidate struct {
	Source string `json:"source"`
	Path   string `json:"path,omitempty"`
	Taken  bool   `json:"taken"`
	Note   string `json:"note,omitempty"` // why it was passed over
}

// languages are in the order in which they are offered; the first is the default.
func languages() []language {
	return []language{{
		name:         "python",
		continuation: "... ",
		spec: func(executable, dir string) workers.Spec {
			return python.Spec(python.Options{Path: executable, Dir: dir})
		},
		file: pythonFile,
		quit: "raise SystemExit",
		candidates: func(executable, dir string) []candidate {
			_, looked, _ := python.Find(python.FindOptions{Path: executable, Dir: dir})
			found := make([]candidate, len(looked))
			for i, c := range looked {
				found[i] = candidate{Source: c.Source, Path: c.Path, Taken: c.Taken, Note: c.Note}
			}
			return found
		},
		dialect: conformance.Python(),
	}}
}

// pythonFile runs a file in __main__ under its own name, which is what
// tracebacks, inspect and multiprocessing go by.
func pythonFile(path string, args []string) string {
	argv := []string{pythonString(path)}
	for _, a := range args {
		argv = append(argv, pythonString(a))
	}
	return fmt.Sprintf(`__file__ = %s
__import__("sys").argv[:] = [%s]
if __import__("sys").path[:1] == [""]: __import__("sys").path[0] = %s
exec(compile(__import__("io").open_code(__file__).read(), __file__, "exec", dont_inherit=True))
`, pythonString(path), strings.Join(argv, ", "), pythonString(filepath.Dir(path)))
}

// pythonString is a literal for what the operating system calls s: Python keeps
// bytes that are no UTF-8 as lone surrogates.
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

// languageNamed finds a language; "" is the first.
func languageNamed(name string) (language, error) {
	all := languages()
	if name == "" {
		return all[0], nil
	}
	if i := slices.IndexFunc(all, func(l language) bool { return l.name == name }); i >= 0 {
		return all[i], nil
	}
	var names []string
	for _, l := range all {
		names = append(names, l.name)
	}
	return language{}, misuse("there is no language %q; there is: %s", name, strings.Join(names, ", "))
}
