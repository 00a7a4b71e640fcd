//go:build linux || darwin

package python_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/interpreters"
	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

type result = rawworker.RawResult

// A worker is a real Python worker on a terminal, driven by raw frames.
type worker struct {
	*rawworker.RawWorker
	t testing.TB
}

// A workerSetup is how a Python is started.
type workerSetup struct {
	python  string
	newest  bool // of the interpreters that are tested
	options python.Options
	rawworker.WorkerOptions
}

// cacheDir keeps the worker's compiled code for the tests of this process.
var cacheDir string

// testedPythons is what eachPython tests on, and a line about what it leaves out.
var testedPythons struct {
	interpreters []interpreters.InstalledPython
	others       string
}

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{
		Prepare: func(dir string) (err error) {
			cacheDir = dir
			testedPythons.interpreters, testedPythons.others, err = interpreters.Selected()
			return err
		},
		AtEnd: func() {
			if testedPythons.others != "" {
				fmt.Println(testedPythons.others)
			}
		},
	})
}

// startWorker starts a worker and waits for its first idle.
func startWorker(t testing.TB, s workerSetup) *worker {
	t.Helper()
	o := s.options
	o.Path = s.python
	if o.CacheDir == "" {
		o.CacheDir = cacheDir
	}
	return launchWorker(t, python.Spec(o), s)
}

func launchWorker(t testing.TB, spec workers.Spec, s workerSetup) *worker {
	t.Helper()
	s.Base = cleanEnv()
	return &worker{rawworker.StartWorker(t, spec, s.WorkerOptions), t}
}

// cleanEnv returns this process's environment without the variables that affect Python.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PYTHON") && !strings.HasPrefix(kv, "MPL") {
			env = append(env, kv)
		}
	}
	return env
}

// sendInterrupt sends the frame and then the signal, as the supervisor does.
func (w *worker) sendInterrupt(seq uint64, level uint8) {
	w.t.Helper()
	w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: seq, Level: level})
	syscall.Kill(-w.Cmd.Process.Pid, syscall.SIGINT)
}

// interruptUntil interrupts until done recognizes an event as the effect, or the turn is over.
// Retries go only to the worker, like the supervisor's.
func (w *worker) interruptUntil(seq uint64, level uint8, done func(any) bool) result {
	w.t.Helper()
	return w.InterruptUntilAcked(seq, level, func(retry bool) {
		to := -w.Cmd.Process.Pid
		if retry {
			to = -to
		}
		syscall.Kill(to, syscall.SIGINT)
	}, done)
}

func newPythonSpec(t testing.TB) workers.Spec {
	t.Helper()
	spec := python.Spec(python.Options{CacheDir: "-"})
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	return spec
}
