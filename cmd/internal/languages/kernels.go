package languages

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/kballard/go-shellquote"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/export"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelspec"
	"github.com/turnstone-repl/turnstone/cmd/internal/pkginstall"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
)

// JupyterPrefix marks the name of a Jupyter kernel where a language is expected.
const JupyterPrefix = "jupyter:"

// KernelWorker is the hidden command that is the worker of a Jupyter kernel.
const KernelWorker = "kernel-worker"

// cutKernelPrefix returns the kernel that a language name stands for, in lower case.
func cutKernelPrefix(name string) (kernel string, ok bool) {
	return strings.CutPrefix(strings.ToLower(name), JupyterPrefix)
}

// InstalledKernels returns the Jupyter kernels of this machine.
func InstalledKernels() []kernelspec.KernelSpec { return kernelspec.List(os.Getenv) }

// findKernel returns the language of an installed kernel.
func findKernel(kernel string) (Language, error) {
	found, err := kernelspec.Find(os.Getenv, kernel)
	var missing *kernelspec.NotFoundError
	if errors.As(err, &missing) {
		if n := cmdkit.NearestName(kernel, missing.Installed); n != "" {
			return Language{}, cmdkit.UsageErrorf("unknown Jupyter kernel %q; did you mean %s%s?", kernel, JupyterPrefix, n)
		}
	}
	if err != nil {
		return Language{}, cmdkit.UsageErrorf("--lang %s%s: %v", JupyterPrefix, kernel, err)
	}
	return kernelLanguage(found), nil
}

// kernelLanguage returns the language of a kernel. For an existing session, found needs only a
// name.
func kernelLanguage(found kernelspec.KernelSpec) Language {
	name, display := JupyterPrefix+found.Name, cmp.Or(found.Display, found.Name)
	more := defaultsByLanguage()[strings.ToLower(found.Language)]
	return Language{
		Name: name, Display: display, Continuation: "... ",
		NewSpec: func(_, dir string, more RuntimeSettings) workers.Spec {
			s := KernelSpec(found.Name, dir, more)
			if more.InitFile != "" {
				s.Err = cmdkit.UsageErrorf("--init: %s is a Jupyter kernel; only the kernel itself can run a file at its start", display)
			}
			return s
		},
		FileInput:  workerFileInput,
		Candidates: func(string, string) []workers.Candidate { return nil },
		Export: export.NotebookLanguage{
			Display: display, Extension: cmp.Or(more.extension, "txt"), Comment: cmp.Or(more.comment, "#"),
			Kernel: found.Name, JupyterName: cmp.Or(found.Language, found.Name),
		},
		Packages: pkginstall.UnsupportedTool(display),
		Dialect:  func() (conformance.Dialect, error) { return more.dialect, nil },
	}
}

// KernelSpec returns how to start a kernel in a session's environment. Its worker is this program.
func KernelSpec(kernel, dir string, more RuntimeSettings) workers.Spec {
	s := workers.Spec{Name: JupyterPrefix + kernel, Env: more.Env, Dir: dir}
	getenv := func(name string) string { value, _ := more.lookupEnv(name); return value }
	found, err := kernelspec.Find(getenv, kernel)
	if err != nil {
		s.Err = err
		return s
	}
	command := found.Command("")
	if _, err := exec.LookPath(command[0]); err != nil {
		s.Err = errors.New("the kernelspec " + found.Dir + " cannot be started: " + err.Error())
		return s
	}
	s.Path, s.Err = ownProgram()
	// A spec with a file gets a private directory, which also holds the kernel's connection file and sockets.
	s.Args = []string{KernelWorker, found.Dir, workers.FilesDir}
	s.Files = map[string][]byte{"kernel": []byte(found.Dir + "\n")}
	s.PathSource = "the kernelspec " + found.Dir
	return s
}

// ownProgram returns the path of this program. After an upgrade that removed its file, a daemon finds
// itself in /proc on Linux. Elsewhere the error says what has happened.
func ownProgram() (string, error) {
	path, err := os.Executable()
	if err != nil || paths.Exists(path) {
		return path, err
	}
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return "", fmt.Errorf("the program of this daemon, %s, was upgraded or removed; repl daemon drain ends the daemon", path)
}

// languageDefaults holds the facts about a language that a kernelspec lacks.
type languageDefaults struct {
	extension, comment string
	dialect            conformance.Dialect
}

// defaultsByLanguage returns the defaults by the language's name in kernels, in lower case. Other
// languages work without any.
func defaultsByLanguage() map[string]languageDefaults {
	python, r := conformance.PythonDialect(), conformance.RDialect()
	python.Exit = "import os; os._exit(3)"       // a kernel catches SystemExit
	python.Shell = func(command string) string { // a child's own output might overtake the kernel's
		return "import subprocess; print(subprocess.run(" + strconv.QuoteToASCII(command) + ", shell=True, stdout=-1, text=True).stdout, end='')"
	}
	python.Call, r.Call = nil, nil
	python.Define, r.Define = "", ""
	r.Exit = "" // IRkernel exits without a status
	script := javaScriptDialect()
	return map[string]languageDefaults{
		"python":     {"py", "#", python},
		"r":          {"R", "#", r},
		"bash":       {"sh", "#", bashDialect()},
		"typescript": {"ts", "//", script},
		"javascript": {"js", "//", script},
		"julia":      {"jl", "#", conformance.Dialect{}},
		"rust":       {"rs", "//", conformance.Dialect{}},
		"go":         {"go", "//", conformance.Dialect{}},
		"ruby":       {"rb", "#", conformance.Dialect{}},
		"octave":     {"m", "%", conformance.Dialect{}},
		"scala":      {"scala", "//", conformance.Dialect{}},
	}
}

func bashDialect() conformance.Dialect {
	return conformance.Dialect{
		Print: func(text string) string { return "printf '%s\\n' " + shellquote.Join(text) },
		Error: "false",
		Sleep: "sleep 3600",
		Loop:  "while :; do :; done",
		Whole: "x=1",
		Word:  "compge", Match: "compgen",
	}
}

func javaScriptDialect() conformance.Dialect {
	return conformance.Dialect{
		Print: func(text string) string { return "console.log(" + strconv.Quote(text) + ")" },
		Error: "throw new TypeError('no')",
		Sleep: "await new Promise(done => setTimeout(done, 3600e3))",
		Whole: "var x = 1", Partial: "function f() {",
		Word: "Arra", Match: "Array",
	}
}
