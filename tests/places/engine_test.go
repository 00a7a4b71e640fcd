//go:build linux

package places

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// deadline bounds every wait for a fact. A test that gets near it has failed.
const deadline = 2 * time.Minute

// An engine runs commands on a far side, behind a prefix of words. Its files are under dir, which
// has the same path on both sides.
type engine struct {
	name    string
	words   []string // the prefix
	program string   // what runs on the near side, as the system names it
	dir     string
	home    string   // the far account's home
	ends    []func() // run in reverse
	once    sync.Once
	err     error // why it could not be started
	begin   func(e *engine) error
}

// engines are all that there are. Each starts when a test first wants it, and ends with the tests.
var engines = []*engine{
	{name: "ssh", program: "ssh", begin: beginSSH},
	{name: "slurm", program: "srun", begin: beginSlurm},
	{name: "podman", program: "podman", begin: beginPodman},
	{name: "kubectl", program: "kubectl", begin: beginKube},
}

// onEach runs a test on each engine, side by side.
func onEach(t *testing.T, test func(t *testing.T, e *engine)) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			test(t, e.started(t))
		})
	}
}

// on is one engine by its name.
func on(t testing.TB, name string) *engine {
	t.Helper()
	for _, e := range engines {
		if e.name == name {
			return e.started(t)
		}
	}
	t.Fatalf("there is no engine %s", name)
	return nil
}

// started is the engine, once it runs.
func (e *engine) started(t testing.TB) *engine {
	t.Helper()
	e.once.Do(func() {
		e.dir = filepath.Join(work, e.name)
		e.home = filepath.Join(e.dir, "home")
		if e.err = os.MkdirAll(e.home, 0o700); e.err == nil {
			e.err = e.begin(e)
		}
	})
	if e.err != nil {
		t.Fatalf("%s does not start: %v", e.name, e.err)
	}
	return e
}

// stopEngines ends them, the last that was started within each first.
func stopEngines() {
	for _, e := range engines {
		for i := len(e.ends) - 1; i >= 0; i-- {
			e.ends[i]()
		}
	}
}

// env is the environment of the far account. Nothing of the near side's is in it.
func (e *engine) env() []string {
	return []string{
		"HOME=" + e.home,
		"PATH=" + filepath.Dir(binary) + ":/usr/bin:/bin:/usr/sbin:/sbin",
		"TMPDIR=" + e.dir,
		"XDG_CACHE_HOME=" + filepath.Join(work, "cache"), // compiled code of workers is made once
	}
}

// file writes a file of the engine's.
func (e *engine) file(name string, mode os.FileMode, text string) (string, error) {
	path := filepath.Join(e.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(text), mode)
}

// serves starts a part of the engine that stays, with its output in a file, and ends it with the engine.
func (e *engine) serves(words ...string) error {
	log, err := os.Create(filepath.Join(e.dir, filepath.Base(words[0])+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	stdin, err := cmd.StdinPipe() // held open: some end with it
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	e.ends = append(e.ends, func() {
		_ = stdin.Close()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		_ = cmd.Wait()
		late.Stop()
	})
	return nil
}

// says runs a program of the engine's to its end, and returns its output.
func (e *engine) says(words ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	late := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s%s", strings.Join(words, " "), err, out.String(), errs.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// until waits for a fact that nobody announces.
func until(what string, holds func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(deadline)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			return fmt.Errorf("it does not come true that %s", what)
		}
	}
	return nil
}

// eventually is until for a test.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if err := until(what, holds); err != nil {
		t.Fatal(err)
	}
}

// run runs far words behind the prefix, with input, until they end.
func (e *engine) run(t *testing.T, input []byte, words ...string) (stdout, stderr []byte, status int) {
	t.Helper()
	all := append(append([]string(nil), e.words...), words...)
	cmd := exec.CommandContext(t.Context(), all[0], all[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", strings.Join(all, " "), err)
	}
	return out.Bytes(), errs.Bytes(), cmd.ProcessState.ExitCode()
}
