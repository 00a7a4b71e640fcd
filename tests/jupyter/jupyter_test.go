//go:build linux

package jupyter

import (
	"strings"
	"testing"
)

// No test of jupyter_kernel_test may be skipped but the pager's, since there is none, and in R that of
// clear_output, for which R has no function.
func TestKernel_PassesJupyterKernelTest(t *testing.T) {
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
}

func TestKernel_GivesTheOutputsOfIPykernel(t *testing.T) {
	t.Parallel()
	newJupyterHome(t).runScript(t, "corpus.py", "python")
}

func TestKernel_GivesTheOutputsOfIRkernel(t *testing.T) {
	t.Parallel()
	requireR(t)
	newJupyterHome(t).runScript(t, "corpus.py", "r")
}

func TestKernel_DoesWhatItsMessagesSay(t *testing.T) {
	t.Parallel()
	newJupyterHome(t).runScript(t, "messages.py", "-v")
}

func TestKernel_OutlivesFaults(t *testing.T) {
	t.Parallel()
	newJupyterHome(t).runScript(t, "faults.py", "-v")
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

func TestBursts(t *testing.T) {
	t.Parallel()
	newJupyterHome(t).runScript(t, "bursts.py", "-v")
}

func TestReports(t *testing.T) {
	t.Parallel()
	newJupyterHome(t).runScript(t, "reports.py", "-v")
}
