package languages

import (
	"maps"

	"github.com/turnstone-repl/turnstone/cmd/internal/export"
	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit"
	"github.com/turnstone-repl/turnstone/cmd/internal/pkginstall"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
	"github.com/turnstone-repl/turnstone/workers/python"
	"github.com/turnstone-repl/turnstone/workers/r"
)

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
				return python.InterpreterSpec(python.Options{Path: executable, Dir: dir, Requires: more.RequiresPython, Env: more.Env})
			}
			env, file := pythonInit(more)
			return withInitFile(python.Spec(python.Options{Path: executable, Dir: dir, Requires: more.RequiresPython, Env: env, SingleProgram: more.IsProgram}), "init-file.py", file)
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

// withInitFile adds a file to a spec. The runtime runs this file at its start, and the file runs
// the user's --init file. An empty text adds no file.
func withInitFile(s workers.Spec, name, text string) workers.Spec {
	if text != "" && s.Files != nil {
		s.Files = maps.Clone(s.Files)
		s.Files[name] = []byte(text)
	}
	return s
}
