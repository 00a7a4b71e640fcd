//go:build linux || darwin

package python_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/interpreters"
	"github.com/turnstone-repl/turnstone/ipc"
)

// A chart names the files that draw it, so that readers need no library of their own.
func TestCharts(t *testing.T) {
	t.Parallel()
	python := interpreters.ChartsPython(t)
	const plotly, bokeh = "application/vnd.plotly.v1+json", "application/vnd.bokeh.v3+json"

	for _, c := range []struct {
		name, code, kind string
		files            []string
	}{
		{"plotly", "import plotly.graph_objects as go; go.Figure(go.Bar(y=[1]))", plotly, []string{"plotly.min.js"}},
		{"plotly with show()", "import plotly.graph_objects as go; go.Figure(go.Bar(y=[1])).show()", plotly, []string{"plotly.min.js"}},
		{"bokeh", "from bokeh.plotting import figure; p = figure(output_backend='webgl'); _ = p.line([1], [2]); p", bokeh, []string{"bokeh.min.js"}},
		{"bokeh with widgets", "from bokeh.models import Slider; Slider(start=0, end=1, value=0)", bokeh, []string{"bokeh.min.js", "bokeh-widgets.min.js"}},
		{"bokeh with a table", "from bokeh.models import DataTable, ColumnDataSource; DataTable(source=ColumnDataSource({}))", bokeh, []string{"bokeh.min.js", "bokeh-widgets.min.js", "bokeh-tables.min.js"}},
		{"bokeh with a formula", "from bokeh.plotting import figure; from bokeh.models import TeX; p = figure(); p.xaxis.axis_label = TeX(text='x'); _ = p.line([1], [2]); p", bokeh, []string{"bokeh.min.js", "bokeh-mathjax.min.js"}},
	} {
		t.Run("names the files of "+c.name, func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, workerSetup{python: python})
			var meta map[string]struct {
				Files []string `json:"turnstone_library"`
			}
			r := w.RunCode(c.code)
			for _, e := range r.Events {
				if d, ok := e.(ipc.Display); ok {
					if err := json.Unmarshal(d.Meta, &meta); err != nil {
						t.Fatal(err)
					}
				}
			}
			got := meta[c.kind].Files
			if len(got) != len(c.files) {
				t.Fatalf("got %q, want %q; %s", got, c.files, r.Transcript())
			}
			for i, path := range got {
				if _, err := os.Stat(path); err != nil || filepath.Base(path) != c.files[i] || !filepath.IsAbs(path) {
					t.Errorf("got %s, want the path of %s; %v", path, c.files[i], err)
				}
			}
		})
	}
}

func TestWidgets(t *testing.T) {
	t.Parallel()
	python := interpreters.ChartsPython(t)

	t.Run("are shown as their text", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{python: python})
		got := ""
		for _, e := range w.RunCode("import ipywidgets; display(ipywidgets.IntSlider(3))").Events {
			if d, ok := e.(ipc.Display); ok {
				got += string(d.Data["text/plain"])
			}
		}
		if got != "IntSlider(value=3)\n[a widget, of which only this text is shown]" {
			t.Errorf("got %q", got)
		}
	})

	t.Run("have comms from the first cell of a notebook on", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{python: python})
		types := func(run result) string {
			var all []string
			for _, e := range run.Events {
				if d, ok := e.(ipc.Display); ok {
					all = append(all, slices.Sorted(maps.Keys(d.Data))...)
				}
			}
			return strings.Join(all, " ")
		}
		const view, comm = "application/vnd.jupyter.widget-view+json", "application/vnd.turnstone.comm+json"
		if got := types(w.RunCode("import ipywidgets; early = ipywidgets.Layout(); early.width = '1px'")); got != "" {
			t.Errorf("without a notebook, the worker sends %s", got)
		}
		if got := types(w.runCell("late = ipywidgets.Layout(); display(late); display(early)")); got != comm+" "+view+" text/plain text/plain" {
			t.Errorf("a cell sends %s", got)
		}
		if got := types(w.RunCode("late.width = '2px'; display(late)")); got != comm+" text/plain" {
			t.Errorf("an agent's turn sends %s", got)
		}
		if got := types(w.runCell("import os\nif (pid := os.fork()) == 0:\n    ipywidgets.Layout().close(); os._exit(0)\n_ = os.waitpid(pid, 0)")); got != "" {
			t.Errorf("a fork sends %s", got)
		}
	})

	t.Run("a bar of tqdm.notebook moves as text", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{python: python})
		got := w.RunCode("from tqdm.notebook import tqdm\nfor i in tqdm(range(3), desc='work', mininterval=0): pass\nprint('after')").Transcript()
		for _, want := range []string{"work:   0%|", "work:  33%|", "work: 100%|", "| 3/3 ["} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing", want)
			}
		}
		if !strings.HasSuffix(strings.TrimSpace(got), "after") || strings.Contains(got, "widget") {
			t.Errorf("got %q", got)
		}
	})
}
