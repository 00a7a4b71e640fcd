//go:build linux || darwin

package python_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

func TestActivation(t *testing.T) {
	t.Parallel()
	t.Run("programs are those of the environment", func(t *testing.T) {
		t.Parallel()
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		root := filepath.Join(dir, ".venv")
		if said, err := exec.Command("python3", "-m", "venv", "--without-pip", root).CombinedOutput(); err != nil {
			t.Skipf("this Python makes no environments: %v: %s", err, said)
		}
		s := workerSetup{python: root}
		s.Dir = dir
		w := startWorker(t, s)
		w.RunCode("import os, shutil; _ = os.system('command -v python'); os.environ['VIRTUAL_ENV']").WantOutput(t, root+"/bin/python\n'"+root+"'\n")
		w.RunCode("os.environ['PATH'].count('.venv')").WantOutput(t, "1\n")
	})
	t.Run("other interpreters change nothing", func(t *testing.T) {
		t.Parallel()
		startWorker(t, workerSetup{python: "/usr/bin/python3"}).RunCode("import os; 'VIRTUAL_ENV' in os.environ").WantOutput(t, "False\n")
	})
}
