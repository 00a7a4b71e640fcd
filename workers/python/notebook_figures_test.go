//go:build linux || darwin

package python_test

import (
	"bytes"
	"cmp"
	"fmt"
	"image/png"
	"os"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

func TestNotebookFigures(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{python: cmp.Or(os.Getenv("TURNSTONE_TEST_MATPLOTLIB"), "python3")})
	if r := w.runCell("import matplotlib.pyplot as plt\nimport matplotlib"); r.Idle.Outcome != ipc.OutcomeOK {
		t.Skip("python3 has no matplotlib: name an interpreter that has it in TURNSTONE_TEST_MATPLOTLIB")
	}
	figure := func(r result) ipc.Display {
		t.Helper()
		for _, e := range r.Events {
			if m, ok := e.(ipc.Display); ok {
				return m
			}
		}
		t.Fatalf("no figure: got %q", r.Transcript())
		return ipc.Display{}
	}
	width := func(m ipc.Display) int {
		t.Helper()
		c, err := png.DecodeConfig(bytes.NewReader(m.Data["image/png"]))
		if err != nil {
			t.Fatal(err)
		}
		return c.Width
	}
	plain := figure(w.runCell("plt.plot([1, 2]);"))

	t.Run("%config chooses the format", func(t *testing.T) {
		sharp := figure(w.runCell("%config InlineBackend.figure_format = 'retina'\nplt.plot([1, 2]);"))
		if got, once := width(sharp), width(plain); got < 2*once || got > 2*once+3 || !strings.Contains(string(sharp.Meta), fmt.Sprintf(`"image/png":{"width":%d,`, got/2)) {
			t.Errorf("retina: got %d pixels and %s, want twice %d", got, sharp.Meta, once)
		}
		for _, code := range []string{"%config InlineBackend.figure_formats = {'svg'}\nplt.plot([1, 2]);", "plt.plot([1, 2]);"} {
			if m := figure(w.runCell(code)); !bytes.Contains(m.Data["image/svg+xml"], []byte("<svg")) || m.Data["image/png"] != nil {
				t.Errorf("%q: got %q", code, m.Data)
			}
		}
		if m := figure(w.RunCode("plt.plot([1, 2]);")); width(m) != width(plain) || len(m.Meta) != 0 {
			t.Error("the format is that of plain Python, too")
		}
		w.runCell("%config InlineBackend.figure_format = 'png'")
	})

	t.Run("a figure has its own resolution", func(t *testing.T) {
		if got := width(figure(w.runCell("matplotlib.rcParams['savefig.dpi'] = 300\nplt.plot([1, 2]);"))); got != width(plain) {
			t.Errorf("got %d pixels, want %d", got, width(plain))
		}
	})

	t.Run("a figure of a cell that fails comes before the error", func(t *testing.T) {
		got := w.runCell("plt.plot([1, 2])\n1/0").Transcript()
		if picture, failure := strings.Index(got, "image/png"), strings.Index(got, "Traceback"); picture < 0 || picture > failure {
			t.Errorf("got %q", got)
		}
	})
}
