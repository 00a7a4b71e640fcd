package languages

import (
	"fmt"
	"strings"
	"testing"
)

func TestTranslatePythonInput(t *testing.T) {
	for typed, want := range map[string]string{
		"exit":             `exit() if type(exit).__module__ == "_sitebuiltins" else exit`,
		" quit ":           `quit() if type(quit).__module__ == "_sitebuiltins" else quit`,
		"exit(3)":          "exit(3)",
		"exit = 1":         "exit = 1",
		"! ls 'a b'":       programCode(fmt.Sprintf(shellJobScript, `"ls 'a b'"`)),
		"!":                "!",
		"os.path?":         "help(os.path)",
		"os.path??":        "help(os.path)",
		"?os":              "help(os)",
		"x if y else z?":   "x if y else z?",
		"x %y":             "x %y",
		"'''\n!ls\n'''":    "'''\n!ls\n'''",
		"a != b":           "a != b",
		"pip in names":     "pip in names",
		"git\n":            "git\n",
		"print('?')":       "print('?')",
		"def f():\n  pass": "def f():\n  pass",
	} {
		if got, err := translatePythonInput(typed); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", typed, got, err, want)
		}
	}
	for typed, want := range map[string]string{"%timeit f()": "timeit.timeit", "%%time\nf()": "perf_counter", "%unknown": "IPython", "pip install x": "!pip install x", "git status": "!git status"} {
		if got, err := translatePythonInput(typed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v, want an error with %q", typed, got, err, want)
		}
	}
}
