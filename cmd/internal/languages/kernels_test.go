package languages

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/kernelspecs"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestJupyterKernel(t *testing.T) {
	t.Run("an installed kernel is a language", func(t *testing.T) {
		kernelspecs.Install(t, map[string]string{"turnstone-basic": kernelspecs.Usable(t), "turnstone-bad": `{}`, "turnstone-gone": `{"argv":["/nowhere/at-all","{connection_file}"]}`})
		l, err := Find("Jupyter:Turnstone-Basic")
		if err != nil || l.Name != "jupyter:turnstone-basic" || l.Display != "Basic" || l.Export.Extension != "py" {
			t.Fatalf("%+v, %v", l, err)
		}
		s := l.NewSpec("", "", RuntimeSettings{})
		if s.Err != nil || len(s.Args) != 3 || s.Args[0] != KernelWorker || s.Args[2] != workers.FilesDir || s.Validate() != nil {
			t.Errorf("%+v", s)
		}
		if s := l.NewSpec("", "", RuntimeSettings{Env: []string{"JUPYTER_PATH=" + t.TempDir()}}); s.Err == nil {
			t.Error("a kernel that the session's environment does not know was found")
		}
		if s := l.NewSpec("", "", RuntimeSettings{InitFile: "/x"}); s.Err == nil || !strings.Contains(s.Err.Error(), "--init") {
			t.Error(s.Err)
		}
		for name, want := range map[string]string{
			"jupyter:turnstone-basix": "did you mean jupyter:turnstone-basic?",
			"jupyter:turnstone-bad":   "argv",
			"jupyter:":                "Jupyter kernel",
		} {
			if _, err := Find(name); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		gone, err := Find("jupyter:turnstone-gone")
		if err != nil {
			t.Fatal(err)
		}
		if s := gone.NewSpec("", "", RuntimeSettings{}); s.Err == nil || !strings.Contains(s.Err.Error(), "cannot be started") {
			t.Error(s.Err)
		}
		if l := OfSession("jupyter:of-another-machine"); l.Name != "jupyter:of-another-machine" || l.Export.Kernel != "of-another-machine" {
			t.Errorf("%+v", l)
		}
	})
}
