//go:build linux || darwin

package r_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
)

// All tests share one R with Python and matplotlib in it, which takes long to start.
func TestReticulate(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{WorkerOptions: rawworker.WorkerOptions{Env: []string{"RETICULATE_PYTHON=/usr/bin/python3"}}})
	has := "cat(requireNamespace('reticulate', quietly = TRUE) && reticulate::py_module_available('matplotlib'))"
	if w.RunCode(has).OutputText() != "TRUE" {
		t.Skip("reticulate or matplotlib is not installed: install them with apt-get install r-cran-reticulate python3-matplotlib")
	}
	t.Run("figures are shown", func(t *testing.T) { testFiguresShown(t, w) })
	t.Run("prompts are not debuggers", func(t *testing.T) { testPromptIsNoDebugger(t, w) })
}

func testFiguresShown(t *testing.T, w *worker) {
	w.RunCode("plt <- reticulate::import('matplotlib.pyplot')")
	runPlotCases(t, w, []plotCase{
		{"x <- plt$plot(1:3); cat('drawn\\n'); plt$show(); cat('shown\\n')", "drawn\n[plot-1]shown\n"},
		{"plt$show(block = TRUE)", ""},
		{"reticulate::py_run_string('import matplotlib.pyplot as p; p.plot([1, 2]); p.figure(); p.plot([2, 1]); p.show()')", "[plot-2][plot-3]"},
		{"plot(1)\nx <- plt$plot(1:3); plt$show()", "[plot-4][plot-5]"},
	})
}

// An interrupt at a prompt of Python ends the code that asked.
func testPromptIsNoDebugger(t *testing.T, w *worker) {
	w.RunCode("f <- function() { x <- reticulate:::readline('Please? '); cat('GOT', x, '\\n') }")
	w.StartTurn("f()")
	if wait := w.WaitInputRequest(); wait.Kind != "line" || wait.Prompt != "Please? " {
		t.Errorf("got %+v", wait)
	}
	if r := w.InterruptUntilAcked(1, 1, nil, nil); describeOutcome(r) != "interrupted" || r.OutputText() != "" && r.OutputText() != "\n" {
		t.Errorf("got %q, %s", r.Transcript(), describeOutcome(r))
	}
	if got, want := w.RunCode("f()", "Ada").Transcript(), `[wait line line "Please? "][line "Ada"]GOT Ada `+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
