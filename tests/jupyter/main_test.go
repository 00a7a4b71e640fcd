//go:build linux

package jupyter

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

const (
	// binaryEnv names the built command for the scripts.
	binaryEnv = "JUPYTER_BINARY"

	// markEnv marks every process of one test.
	markEnv = "JUPYTER_TEST"

	// testTimeout bounds the time of one script. All scripts need much less.
	testTimeout = 5 * time.Minute
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{BuildRepl: true})
}

// venvPython returns the interpreter of the virtual environment with Jupyter's clients.
func venvPython(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "turnstone", "jupyter", "bin", "python")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("Jupyter's clients are not installed; scripts/setup-dev installs them into %s", filepath.Dir(filepath.Dir(path)))
	}
	return path
}

// A jupyterHome is the environment of a test: its own home directory, daemon and kernelspecs.
type jupyterHome struct {
	home string
	env  []string
}

// newJupyterHome creates a home with the kernels of repl and the two that they are compared with. At the
// end of the test no process may run in it.
func newJupyterHome(t testing.TB) jupyterHome {
	t.Helper()
	interpreter := venvPython(t)
	home := testexec.ShortDir(t)
	p := jupyterHome{home: home}
	for name, dir := range map[string]string{
		"HOME": "", "TMPDIR": "tmp", "XDG_RUNTIME_DIR": "run", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state",
		"XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "JUPYTER_RUNTIME_DIR": "jupyter", "IPYTHONDIR": "ipython",
	} {
		dir = filepath.Join(home, dir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		p.env = append(p.env, name+"="+dir)
	}
	p.env = append(p.env, markEnv+"="+home, "PATH="+filepath.Dir(replbin.Path())+":"+os.Getenv("PATH"),
		binaryEnv+"="+replbin.Path(), "LANG=C.UTF-8", "PYTHONPATH=", "PYDEVD_DISABLE_FILE_VALIDATION=1")
	p.runRepl(t, "jupyter", "install", "--lang", "python", "--python", interpreter)
	if _, err := exec.LookPath("R"); err == nil {
		p.runRepl(t, "jupyter", "install", "--lang", "r")
	}
	t.Cleanup(func() { p.stopDaemon(t) })
	return p
}

// stopDaemon ends the daemon of the home, and waits until no process is left.
func (h jupyterHome) stopDaemon(t testing.TB) {
	h.newCommand("repl", "daemon", "stop").Run()
	wait.Within(time.Minute, func() bool { return len(h.findProcesses()) == 0 })
	for _, pid := range h.findProcesses() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		t.Errorf("process %d is left: %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// findProcesses returns the processes of the home.
func (h jupyterHome) findProcesses() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if bytes.Contains(env, []byte(markEnv+"="+h.home+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (h jupyterHome) newCommand(name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	if name == "repl" {
		name = replbin.Path()
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { defer cancel(); return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), h.env...)
	return cmd
}

func (h jupyterHome) runRepl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := h.newCommand("repl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("repl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// runScript runs one of the Python scripts, which prints what failed.
func (h jupyterHome) runScript(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := h.newCommand(venvPython(t), append([]string{name}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// requireTables skips a test if the system has no pandas and matplotlib for the interpreter of the
// environment. It returns their directory.
func requireTables(t testing.TB) string {
	t.Helper()
	const dir = "/usr/lib/python3/dist-packages"
	find := "import sys; sys.path.append('" + dir + "'); import pandas, matplotlib.pyplot"
	if out, err := exec.Command(venvPython(t), "-c", find).CombinedOutput(); err != nil {
		t.Skipf("pandas or matplotlib of the system is missing; scripts/setup-dev installs them: %s", out)
	}
	return dir
}

// requireR skips a test if IRkernel is not installed, with which the kernel of repl is compared.
func requireR(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/usr/share/jupyter/kernels/ir"); err != nil {
		t.Skip("IRkernel is not installed; scripts/setup-dev installs it")
	}
}
