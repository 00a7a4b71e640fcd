//go:build linux

package remote

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

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// testTimeout bounds every wait for a condition. A test that comes near it has failed.
const testTimeout = 2 * time.Minute

// A testEngine runs commands at a remote end, through a prefix of words. Its files are under dir,
// which has the same path on both sides.
type testEngine struct {
	name          string
	prefix        []string // the command prefix
	prefixProgram string   // the local program, by its name in the process list
	dir           string
	home          string   // the remote account's home
	cleanups      []func() // run in reverse
	once          sync.Once
	err           error // why it could not be started
	start         func(e *testEngine) error
}

// testEngines lists all engines. Each starts when a test first needs it, and ends with the tests.
var testEngines = []*testEngine{
	{name: "ssh", prefixProgram: "ssh", start: beginSSH},
	{name: "slurm", prefixProgram: "srun", start: beginSlurm},
	{name: "podman", prefixProgram: "podman", start: beginPodman},
	{name: "kubectl", prefixProgram: "kubectl", start: beginKube},
}

// onEachEngine runs a test on each engine in parallel.
func onEachEngine(t *testing.T, test func(t *testing.T, e *testEngine)) {
	t.Parallel()
	for _, e := range testEngines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			test(t, e.ensureStarted(t))
		})
	}
}

// startEngine returns an engine by its name.
func startEngine(t testing.TB, name string) *testEngine {
	t.Helper()
	for _, e := range testEngines {
		if e.name == name {
			return e.ensureStarted(t)
		}
	}
	t.Fatalf("unknown engine %s", name)
	return nil
}

// ensureStarted returns the engine once it runs.
func (e *testEngine) ensureStarted(t testing.TB) *testEngine {
	t.Helper()
	e.once.Do(func() {
		e.dir = filepath.Join(workDir, e.name)
		e.home = filepath.Join(e.dir, "home")
		if e.err = os.MkdirAll(e.home, 0o700); e.err == nil {
			e.err = e.start(e)
		}
	})
	if e.err != nil {
		t.Fatalf("%s does not start: %v", e.name, e.err)
	}
	return e
}

// stopEngines stops the engines, and the parts of each in reverse order.
func stopEngines() {
	for _, e := range testEngines {
		for i := len(e.cleanups) - 1; i >= 0; i-- {
			e.cleanups[i]()
		}
	}
}

// environment returns the environment of the remote account, without local variables.
func (e *testEngine) environment() []string {
	return []string{
		"HOME=" + e.home,
		"PATH=" + filepath.Dir(binary) + ":/usr/bin:/bin:/usr/sbin:/sbin",
		"TMPDIR=" + e.dir,
		"XDG_CACHE_HOME=" + filepath.Join(workDir, "cache"), // so the compiled code of workers is shared
	}
}

// writeFile writes a file of the engine.
func (e *testEngine) writeFile(name string, mode os.FileMode, text string) (string, error) {
	path := filepath.Join(e.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(text), mode)
}

// startServer starts a long-running part of the engine, with its output in a file, and ends it with
// the engine.
func (e *testEngine) startServer(words ...string) error {
	log, err := os.Create(filepath.Join(e.dir, filepath.Base(words[0])+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	stdin, err := cmd.StdinPipe() // held open, because some programs exit with it
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	e.cleanups = append(e.cleanups, func() {
		_ = stdin.Close()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(10*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		_ = cmd.Wait()
		late.Stop()
	})
	return nil
}

// runOutput runs a program of the engine until it exits, and returns its output.
func (e *testEngine) runOutput(words ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	late := time.AfterFunc(testTimeout, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s%s", strings.Join(words, " "), err, out.String(), errs.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// waitUntil polls a condition until it holds.
func waitUntil(what string, holds func() bool) error {
	if !wait.Within(testTimeout, holds) {
		return fmt.Errorf("timeout: %s", what)
	}
	return nil
}

// runPrefixed runs remote words through the prefix, with input, until they exit.
func (e *testEngine) runPrefixed(t *testing.T, input []byte, words ...string) (stdout, stderr []byte, status int) {
	t.Helper()
	all := append(append([]string(nil), e.prefix...), words...)
	cmd := exec.CommandContext(t.Context(), all[0], all[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", strings.Join(all, " "), err)
	}
	return out.Bytes(), errs.Bytes(), cmd.ProcessState.ExitCode()
}
