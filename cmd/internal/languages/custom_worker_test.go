package languages

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/securefile"
)

// writeWorkersFile makes the user's file of workers.
func writeWorkersFile(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	dir = filepath.Join(dir, "turnstone")
	err := securefile.MakeDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := securefile.CreateTemp(dir, "new-")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close(), securefile.Rename(f.Name(), filepath.Join(dir, "workers.toml"))); err != nil {
		t.Fatal(err)
	}
}

func TestWorkersFile(t *testing.T) {
	t.Run("its workers are languages", func(t *testing.T) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		writeWorkersFile(t, `[workers.tcl]
command = ["`+filepath.ToSlash(self)+`", "~/worker.tcl"]
aliases = ["tclsh"]
display = "Tcl"
env = ["A=b"]
extension = "tcl"
`)
		l, err := Find("TCLSH")
		if err != nil || l.Name != "tcl" || l.Display != "Tcl" || l.Export.Extension != "tcl" || l.Export.Comment != "#" {
			t.Fatalf("got %+v, %v", l, err)
		}
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		s := l.NewSpec("", "/somewhere", RuntimeSettings{Env: []string{"C=d"}})
		if s.Err != nil || !slices.Equal(s.Args, []string{filepath.Join(home, "worker.tcl")}) || !slices.Equal(s.Env, []string{"A=b", "C=d"}) || s.Dir != "/somewhere" {
			t.Errorf("got %+v", s)
		}
		if s := l.NewSpec("", "", RuntimeSettings{InitFile: "/file"}); s.Err == nil {
			t.Error("--init was ignored without an error")
		}
		if _, err := l.Packages.Canonical([]string{"numpy"}); err == nil || !strings.Contains(err.Error(), "packages of Tcl cannot be installed here") {
			t.Errorf("got %v", err)
		}
		names := slices.DeleteFunc(Names(), func(name string) bool { return strings.HasPrefix(name, JupyterPrefix) })
		if got := names; !slices.Equal(got, []string{"python", "r", "tcl"}) {
			t.Errorf("got %v", got)
		}
	})

	t.Run("names the mistake and leaves Python usable", func(t *testing.T) {
		for text, want := range map[string]string{
			"[workers.tcl]\ncommnd = [\"tclsh\"]\n":                     `line 2: unknown setting "workers.tcl.commnd"`,
			"# mine\n[workers.tcl]\ndisplay = \"Tcl\"\n":                "line 2: tcl lacks a command",
			"[workers.tcl]\ncommand = [\"tclsh\"]\naliases = [\"R\"]\n": `line 1: invalid worker name "R"`,
			"[workers.tcl]\ncommand = [\"tclsh\"]\naliases = [\"r\"]\n": "r cannot be a name of tcl: it is already a name of r",
			"[workers.python]\ncommand = [\"pypy\"]\n":                  "python cannot be a name of python",
			"[workers.tcl]\ncommand = [\"tclsh\"]\nenv = [\"A\"]\n":     `"A" is not NAME=VALUE`,
			"[workers.tcl\n": "line 1",
		} {
			writeWorkersFile(t, text)
			if _, err := Find("tcl"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", text, err, want)
			}
			if l, err := Find("python"); err != nil || l.Name != "python" {
				t.Errorf("%s: python: %v", text, err)
			}
			if _, err := All(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: all languages: got %v, want %q", text, err, want)
			}
		}
	})
}

func TestWorkerFlag(t *testing.T) {
	t.Run("takes a command under a name", func(t *testing.T) {
		dir := t.TempDir()
		program := filepath.Join(dir, "my lisp.exe")
		if err := os.WriteFile(program, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "worker.lisp"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir)
		var w WorkerFlag
		if err := w.Set(`lisp='` + program + `' --load worker.lisp --eval '(a "b")'`); err != nil {
			t.Fatal(err)
		}
		want := []string{program, "--load", filepath.Join(dir, "worker.lisp"), "--eval", `(a "b")`}
		if len(w) != 1 || w[0].Name != "lisp" || !slices.Equal(w[0].Command, want) {
			t.Errorf("got %q, want %q", w, want)
		}
		var again WorkerFlag
		if err := again.Set(w.FlagValues()[0]); err != nil || !slices.Equal(again[0].Command, want) {
			t.Errorf("a client's configuration does not get the typed command: %q, %v", again, err)
		}
		for text, want := range map[string]string{
			"":                         "missing command",
			"x='":                      "quote",
			"no-such-program":          "no-such-program",
			"'" + program + "'":        "write NAME=COMMAND", // no name with a space
			"python='" + program + "'": `"python" is a name of Python`,
			"lisp='" + program + "'":   "two workers are called lisp",
		} {
			if err := w.Set(text); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
				t.Errorf("%s: got %v, want %q", text, err, want)
			}
		}
	})

	t.Run("refuses two workers for one session", func(t *testing.T) {
		both := WorkerFlag{{"a", []string{"/a"}}, {"b", []string{"/b"}}}
		if _, _, err := both.SingleWorker(""); err == nil {
			t.Error("two workers were accepted for one session")
		}
		if _, _, err := both[:1].SingleWorker("r"); err == nil {
			t.Error("--lang and --worker were accepted together")
		}
		if o, ok, err := both[:1].SingleWorker(""); err != nil || !ok || o.Name != "a" {
			t.Errorf("got %v, %v, %v", o, ok, err)
		}
	})
}
