package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/workers"
)

// withKernels adds kernels to those of the user, until the test ends.
func withKernels(t *testing.T, kernels map[string]string) {
	t.Helper()
	data := t.TempDir()
	for name, text := range kernels {
		dir := filepath.Join(data, "kernels", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "kernel.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("JUPYTER_PATH", data)
}

func usableKernelspec(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return `{"argv":["` + filepath.ToSlash(program) + `","{connection_file}"],"display_name":"Basic","language":"python"}`
}

func TestJupyterKernel(t *testing.T) {
	t.Run("a daemon offers an installed kernel as a language", func(t *testing.T) {
		withKernels(t, map[string]string{"turnstone-basic": usableKernelspec(t)})
		if names := languageNames(); !slices.Contains(names, "jupyter:turnstone-basic") || names[0] != "python" {
			t.Errorf("%q", names)
		}
		s, err := specFor(client.CreateParams{Language: "jupyter:turnstone-basic", Dir: t.TempDir()})
		if err = errors.Join(err, s.Err); err != nil || s.Args[0] != kernelWorker {
			t.Errorf("%+v, %v", s, err)
		}
	})

	t.Run("an installed kernel is a language", func(t *testing.T) {
		withKernels(t, map[string]string{"turnstone-basic": usableKernelspec(t), "turnstone-bad": `{}`, "turnstone-gone": `{"argv":["/nowhere/at-all","{connection_file}"]}`})
		l, err := findLanguage("Jupyter:Turnstone-Basic")
		if err != nil || l.name != "jupyter:turnstone-basic" || l.display != "Basic" || l.export.Extension != "py" {
			t.Fatalf("%+v, %v", l, err)
		}
		s := l.newSpec("", "", runtimeSettings{})
		if s.Err != nil || len(s.Args) != 3 || s.Args[0] != kernelWorker || s.Args[2] != workers.FilesDir || s.Validate() != nil {
			t.Errorf("%+v", s)
		}
		if s := l.newSpec("", "", runtimeSettings{env: []string{"JUPYTER_PATH=" + t.TempDir()}}); s.Err == nil {
			t.Error("a kernel that the session's environment does not know was found")
		}
		if s := l.newSpec("", "", runtimeSettings{initFile: "/x"}); s.Err == nil || !strings.Contains(s.Err.Error(), "--init") {
			t.Error(s.Err)
		}
		for name, want := range map[string]string{
			"jupyter:turnstone-basix": "did you mean jupyter:turnstone-basic?",
			"jupyter:turnstone-bad":   "argv",
			"jupyter:":                "Jupyter kernel",
		} {
			if _, err := findLanguage(name); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		gone, err := findLanguage("jupyter:turnstone-gone")
		if err != nil {
			t.Fatal(err)
		}
		if s := gone.newSpec("", "", runtimeSettings{}); s.Err == nil || !strings.Contains(s.Err.Error(), "cannot be started") {
			t.Error(s.Err)
		}
		if l := sessionLanguage("jupyter:of-another-machine"); l.name != "jupyter:of-another-machine" || l.export.Kernel != "of-another-machine" {
			t.Errorf("%+v", l)
		}
	})

	t.Run("completion and doctor list the installed kernels", func(t *testing.T) {
		withKernels(t, map[string]string{"turnstone-basic": usableKernelspec(t), "turnstone-bad": `{}`})
		offers := map[string]string{}
		for _, o := range completeWord([]string{"--lang"}, "jupyter:turnstone") {
			offers[o.Word] = o.Description
		}
		if len(offers) != 1 || offers["jupyter:turnstone-basic"] != "Basic" {
			t.Error(offers)
		}
		listed := map[string]string{}
		all := examineKernels(t.Context())
		for _, k := range all {
			listed[k.Name] = k.Problem
		}
		if problem, ok := listed["jupyter:turnstone-basic"]; !ok || problem != "" || listed["jupyter:turnstone-bad"] == "" {
			t.Errorf("%+v", all)
		}
		var p cmdkit.LineBuilder
		printKernels(&p, all)
		if text := p.String(); !strings.Contains(text, "jupyter:turnstone-basic") || !strings.Contains(text, "cannot be used") {
			t.Error(text)
		}
	})

	t.Run("the worker command reports a missing kernel", func(t *testing.T) {
		withKernels(t, map[string]string{"turnstone-basic": usableKernelspec(t)})
		for _, args := range [][]string{{kernelWorker}, {kernelWorker, "turnstone-none"}} {
			if status, _, err := runLine(t, args...); status != cmdkit.StatusUsage || !strings.Contains(err, "Jupyter kernel") {
				t.Errorf("%v: %d, %q", args, status, err)
			}
		}
	})
}
