//go:build linux

package jupyter

import (
	"os/exec"
	"strings"
	"testing"
)

func TestKernel(t *testing.T) {
	t.Parallel()

	// No test of jupyter_kernel_test may be skipped, with two exceptions. This kernel has no pager,
	// and R has no function for clear_output.
	t.Run("passes jupyter_kernel_test", func(t *testing.T) {
		t.Parallel()
		for _, lang := range []string{"python", "r"} {
			t.Run(lang, func(t *testing.T) {
				t.Parallel()
				if lang == "r" {
					requireR(t)
				}
				out := newJupyterHome(t).runScript(t, "suite_"+lang+".py", "-v")
				for line := range strings.Lines(out) {
					if strings.Contains(line, "skipped") && !strings.Contains(line, "No code page something") && !strings.Contains(line, "OK (") &&
						!(lang == "r" && strings.Contains(line, "No code clear output")) {
						t.Errorf("skipped: %s", line)
					}
				}
			})
		}
	})

	t.Run("returns the outputs of ipykernel", func(t *testing.T) {
		t.Parallel()
		newJupyterHome(t).runScript(t, "corpus.py", "python")
	})

	t.Run("runs notebooks in the manner of public ones as ipykernel does", func(t *testing.T) {
		t.Parallel()
		h := newJupyterHome(t)
		h.runScript(t, "notebooks.py", "python", requireTables(t))
	})

	t.Run("runs notebooks in the manner of public ones as IRkernel does", func(t *testing.T) {
		t.Parallel()
		requireR(t)
		newJupyterHome(t).runScript(t, "notebooks.py", "r")
	})

	t.Run("returns the outputs of IRkernel", func(t *testing.T) {
		t.Parallel()
		requireR(t)
		newJupyterHome(t).runScript(t, "corpus.py", "r")
	})

	t.Run("implements the messages of the protocol", func(t *testing.T) {
		t.Parallel()
		newJupyterHome(t).runScript(t, "messages.py", "-v")
	})

	t.Run("survives faults of peers and daemon", func(t *testing.T) {
		t.Parallel()
		newJupyterHome(t).runScript(t, "faults.py", "-v")
	})

	t.Run("stops a burst of requests after an error", func(t *testing.T) {
		t.Parallel()
		newJupyterHome(t).runScript(t, "bursts.py", "-v")
	})

	t.Run("runs magics for notebooks only", func(t *testing.T) {
		t.Parallel()
		newJupyterHome(t).runScript(t, "magics.py", "-v")
	})

	t.Run("sends widgets and their updates as ipykernel does", func(t *testing.T) {
		t.Parallel()
		if exec.Command(venvPython(t), "-c", "import ipywidgets").Run() != nil {
			t.Skip("ipywidgets is not installed; scripts/setup-dev installs it")
		}
		newJupyterHome(t).runScript(t, "widgets.py", "-v")
	})

	t.Run("reports errors that do not end a cell", func(t *testing.T) {
		t.Parallel()
		newJupyterHome(t).runScript(t, "reports.py", "-v")
	})
}

func TestExits(t *testing.T) {
	t.Parallel()
	for name, class := range map[string]string{"are errors, and the variables stay": "Exits", "end papermill and nbclient": "Runners"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newJupyterHome(t).runScript(t, "exits.py", "-v", class)
		})
	}
}
