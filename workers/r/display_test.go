//go:build linux || darwin

package r_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/ipc"
)

// kindsAndText returns the text of a turn with the kind of each part.
func kindsAndText(r result) (all []string) {
	for _, e := range r.Events {
		x, ok := e.(rawworker.MergedText)
		if last := len(all) - 1; ok && last >= 0 && strings.HasPrefix(all[last], string(x.Kind)+":") {
			all[last] += x.Data
		} else if ok {
			all = append(all, string(x.Kind)+":"+x.Data)
		}
	}
	return all
}

func displayEvents(r result) (all []ipc.Display) {
	for _, e := range r.Events {
		if d, ok := e.(ipc.Display); ok {
			all = append(all, d)
		}
	}
	return all
}

func TestText(t *testing.T) {
	t.Parallel()

	// Only the echo of a value and the report of an error are marked.
	t.Run("marks echoed values and errors, nothing else", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for code, want := range map[string][]string{
			"cat('a\\n'); 40 + 2":                      {":a\n", "result:[1] 42\n"},
			"f <- function() { cat('in\\n'); 7 }\nf()": {":in\n", "result:[1] 7\n"},
			"message('m'); 1.5":                        {":m\n", "result:[1] 1.5\n"},
			"1:2\ncat('b\\n')\nletters[1:2]":           {"result:[1] 1 2\n", ":b\n", "result:[1] \"a\" \"b\"\n"},
			"cat('c\\n'); stop('no')":                  {":c\n", "traceback:Error: no\n"},
			"invisible(3)":                             nil,
			"x <- 99; warning('w'); cat('d\\n')":       {":Warning message:\nw \nd\n"},
			"print(structure(8, class = 'none'))":      nil,
			"structure(list(), class = 'loud')":        nil,
		} {
			got := kindsAndText(w.RunCode(code))
			if want != nil && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %q, want %q", code, got, want)
			}
		}
	})

	// A value is an echo even if the previous value was the same object.
	t.Run("marks an echo although the value before was the same", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("y <- 5; e <- new.env(); s <- quote(a); n <- NULL; cl <- quote(f(x)); p <- list(1)")
		for _, c := range []struct{ name, code, want string }{
			{"assigned just before", "z <- 5; z", "result:[1] 5\n"},
			{"in a line before", "z <- 6\nz", "result:[1] 6\n"},
			{"shown twice", "y; y", "result:[1] 5\n[1] 5\n"},
			{"NULL after NULL", "n; n", "result:NULL\nNULL\n"},
			{"a name", "s; s", "result:a\na\n"},
			{"a call", "cl; cl", "result:f(x)\nf(x)\n"},
			{"the last value", "y; .Last.value", "result:[1] 5\n[1] 5\n"},
			{"the last value, held", "identical({y}, 5); get('.Last.value')", "result:[1] TRUE\n[1] TRUE\n"},
			{"the last value of a name", "s; typeof(.Last.value)", "result:a\n[1] \"symbol\"\n"},
			{"the last value of a call", "cl; typeof(.Last.value)", "result:f(x)\n[1] \"language\"\n"},
			{"after an error", "try(stop('e'), silent = TRUE)\ny\ny", "result:[1] 5\n[1] 5\n"},
			{"text that is none", "y; cat('5\\n')", "result:[1] 5\n"},
		} {
			r := w.RunCode(c.code)
			if got := kindsAndText(r); len(got) == 0 || got[0] != c.want || len(got) > 1 && c.name != "text that is none" {
				t.Errorf("%s: got %q, want %q", c.name, got, c.want)
			}
		}
		w.RunCode("stop('e')")
		w.RunCode("y").WantOutput(t, "[1] 5\n")
		for _, code := range []string{"x <- head(mtcars, 1); x", "x <- head(mtcars, 1)\nx", "x", "x"} {
			r := w.RunCode(code)
			if got := kindsAndText(r); len(got) != 1 || !strings.HasPrefix(got[0], "result:") || len(displayEvents(r)) != 1 {
				t.Errorf("%q: got %q and %d tables, want one result", code, got, len(displayEvents(r)))
			}
		}
		// As in plain R, a value is changed in place once it is no longer the last one.
		w.RunCode("v <- numeric(1e6); m <- tracemem(v)\n1\nv[2] <- 1; v[3] <- 1").WantOutput(t, "[1] 1\n")
	})
}

func TestTables(t *testing.T) {
	t.Parallel()

	// A data frame has a table only where R prints it.
	t.Run("a data frame has a table where R prints it", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("d <- data.frame(a = 1); quiet <- structure(d, class = c('quiet', 'data.frame')); loud <- structure(d, class = c('loud', 'data.frame'))\n" +
			"print.quiet <- function(x, ...) invisible(x); print.loud <- function(x, ...) { cat('table\\n'); message('loud') }; file <- tempfile()")
		for _, c := range []struct {
			name, code string
			want       int
		}{
			{"at the top level", "d", 1},
			{"twice", "d; d", 2},
			{"with a message after its text", "loud", 1},
			{"behind text", "{ cat('text\n'); d }", 1},
			{"not where its class prints nothing", "quiet", 0}, // data.table, after :=
			{"not where its class prints nothing, after text", "{ cat('text\n'); quiet }", 0},
			{"not where its class prints nothing, after one that was printed", "d; quiet", 1},
			{"not where its text goes to a file", "sink(file); d; sink()", 0},
			{"nor where its text goes to a connection", "x <- capture.output(print(d)); invisible(d)", 0},
		} {
			t.Run(c.name, func(t *testing.T) {
				if got := displayEvents(w.RunCode(c.code)); len(got) != c.want {
					t.Errorf("%s: got %d tables, want %d", c.code, len(got), c.want)
				}
			})
		}
	})

	t.Run("a data frame is a table, too", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		r := w.RunCode("data.frame(a = 1:2, b = c('<x>', NA))")
		if got := kindsAndText(r); len(got) != 1 || !strings.HasPrefix(got[0], "result:  a    b\n1 1  <x>\n") {
			t.Errorf("got %q", got)
		}
		d := displayEvents(r)
		if len(d) != 1 || d[0].Kind != ipc.DisplayResult || d[0].Title != "" {
			t.Fatalf("got %+v", d)
		}
		html := string(d[0].Data["text/html"])
		for _, want := range []string{"data.frame: 2 × 2", "&lt;integer&gt;", "<td>&lt;x&gt;</td>", "<td>NA</td>"} {
			if !strings.Contains(html, want) {
				t.Errorf("%q is not in %s", want, html)
			}
		}
		for _, code := range []string{"data.frame()", "data.frame(row.names = c('p', 'q'))"} {
			d = displayEvents(w.RunCode(code))
			if len(d) != 1 {
				t.Fatalf("%s: %d displays", code, len(d))
			}
			if html := string(d[0].Data["text/html"]); strings.Contains(html, "scope=col") || strings.Contains(html, "<td>") {
				t.Errorf("%s has a column: %s", code, html)
			}
		}
		d = displayEvents(w.RunCode("data.frame(matrix(0, 1e5, 30))"))
		if len(d) != 1 || len(d[0].Data["text/html"]) > 100_000 || !strings.Contains(string(d[0].Data["text/html"]), "100000 × 30, the first 20 shown") {
			t.Errorf("a large one: %d displays", len(d))
		}
		for _, code := range []string{
			"x <- data.frame(a = 1)", "print(data.frame(a = 1))", "1", "data.frame()[0, ]",
			"structure(list(a = 1), class = 'data.frame')", "data.frame(a = I(list(1, 2)), m = I(matrix(1:4, 2)))", "data.frame(a = Sys.time(), b = factor('x'))",
			"format.bad <- function(x, ...) stop('bad'); d <- data.frame(a = 1); class(d$a) <- 'bad'; dim(d)",
		} {
			if r := w.RunCode(code); r.Idle.Outcome != ipc.OutcomeOK {
				t.Errorf("%s: got %q", code, r.Transcript())
			}
		}
		w.RunCode("cat('after\\n')").WantOutput(t, "after\n")
	})

	// The options for tables are IRkernel's.
	t.Run("options limit the size of a table", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("d <- data.frame(matrix(0, 150, 30))")
		for _, c := range []struct {
			name, options, want string
			rows                int
		}{
			{"without them", "", "150 × 30, the first 20 shown<", 1 + 60 + 1},
			{"all of it", "repr.matrix.max.rows = 150, repr.matrix.max.cols = 30", "150 × 30<", 1 + 150},
			{"less", "repr.matrix.max.rows = 10, repr.matrix.max.cols = 4", "150 × 30, the first 4 shown<", 1 + 10 + 1},
			{"the maximum", "repr.matrix.max.rows = Inf, repr.matrix.max.cols = 1e9", "150 × 30<", 1 + 150},
			{"not a number", "repr.matrix.max.rows = 'all', repr.matrix.max.cols = NA", "150 × 30, the first 20 shown<", 1 + 60 + 1},
		} {
			t.Run(c.name, func(t *testing.T) {
				d := displayEvents(w.RunCode("options(repr.matrix.max.rows = NULL, repr.matrix.max.cols = NULL)\noptions(" + c.options + "); d"))
				if len(d) != 1 {
					t.Fatalf("got %d displays", len(d))
				}
				html := string(d[0].Data["text/html"])
				if got := strings.Count(html, "<tr>"); got != c.rows || !strings.Contains(html, c.want) {
					t.Errorf("got %d rows, want %d; %.60s", got, c.rows, html)
				}
			})
		}
		t.Run("none", func(t *testing.T) {
			if d := displayEvents(w.RunCode("options(jupyter.rich_display = FALSE); d")); len(d) != 0 {
				t.Errorf("got %d displays", len(d))
			}
		})
	})
}

func TestDisplay(t *testing.T) {
	t.Parallel()

	t.Run("a widget is one HTML page", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("plot/index.html", `<div class="plotly html-widget" id="w"></div><script type="application/json" data-for="w">{"x":{"data":[{"type":"bar","y":[1,2]}],"layout":{"title":"T"}},"evals":[],"jsHooks":[]}</script>`)
		write("page/index.html", `<head><script src="lib/a%20b/x.js"></script><link href="lib/s.css" rel="stylesheet" /><script src="lib/none.js"></script></head>é`)
		write("page/lib/a b/x.js", `var a = "</script>" + "\\1é";`)
		write("page/lib/s.css", "p {}")
		write("large/index.html", `<script src="x.js"></script>`)
		write("large/x.js", strings.Repeat("x", 17_000_000))
		s := workerSetup{}
		s.Dir = dir
		w := startWorker(t, s)
		d := displayEvents(w.RunCode("getOption('viewer')('plot/index.html')"))
		if len(d) != 1 || !strings.HasPrefix(string(d[0].Data["text/html"]), `<div class="plotly html-widget"`) || string(d[0].Data["application/vnd.plotly.v1+json"]) != `{"data":[{"type":"bar","y":[1,2]}],"layout":{"title":"T"}}` || d[0].Title != "plotly widget" {
			t.Errorf("plotly: got %+v", d)
		}
		d = displayEvents(w.RunCode("getOption('viewer')(file.path(getwd(), 'page/index.html'), height = 100)"))
		want := `<head><script>var a = "<\/script>" + "\\1é";</script><style>p {}</style><script></script></head>é`
		if len(d) != 1 || string(d[0].Data["text/html"]) != want {
			t.Errorf("a page: got %+v", d)
		}
		if r := w.RunCode("getOption('viewer')('large/index.html')"); len(displayEvents(r)) != 0 || !strings.Contains(r.ErrText(), "larger than 16 MB") {
			t.Errorf("a large one: got %q", r.Transcript())
		}
		if r := w.RunCode("library(DT)"); r.Idle.Outcome != ipc.OutcomeOK {
			t.Skip("R has no DT: install it with apt-get install r-cran-dt")
		}
		r := w.RunCode("datatable(data.frame(a = 1))")
		if d := displayEvents(r); len(d) != 1 || d[0].Title != "datatables widget" || !strings.Contains(string(d[0].Data["text/html"]), "DataTable") {
			t.Errorf("DT: got %q", r.Transcript())
		}
	})

	// A gt table is one page, like any htmltools document that is printed for a viewer.
	t.Run("a document of htmltools is one HTML page", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		if r := w.RunCode("library(htmltools)"); r.Idle.Outcome != ipc.OutcomeOK {
			t.Skip("R has no htmltools: install it with apt-get install r-cran-htmltools")
		}
		r := w.RunCode("print(browsable(tags$table(tags$style('td { color: red }'), tags$tr(tags$td('a cell')))))")
		d := displayEvents(r)
		if len(d) != 1 || d[0].Title != "page" {
			t.Fatalf("got %q", r.Transcript())
		}
		html := string(d[0].Data["text/html"])
		for _, part := range []string{"<!DOCTYPE html>", "td { color: red }", "<td>a cell</td>"} {
			if !strings.Contains(html, part) {
				t.Errorf("%q is not in %s", part, html)
			}
		}
	})

	// Packages for notebooks show results through IRdisplay even without a notebook.
	t.Run("shows what code passes to IRdisplay", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		if r := w.RunCode("library(IRdisplay)"); r.Idle.Outcome != ipc.OutcomeOK {
			t.Skip("R has no IRdisplay: install it with apt-get install r-cran-irdisplay")
		}
		for code, want := range map[string]map[string]string{
			"display_html('<b>é</b>')":        {"text/html": "<b>é</b>"},
			"display_markdown(c('# a', 'b'))": {"text/markdown": "# a\nb"},
			"display_json('{\"a\": [1]}')":    {"application/json": `{"a": [1]}`},
			"display_svg('<svg/>')":           {"image/svg+xml": "<svg/>"},
			"display_latex('$x$')":            {"text/latex": "$x$"},
			"publish_mimebundle(list('application/json' = list(a = 1), 'text/plain' = 'p'))": {"application/json": `{"a":1}`, "text/plain": "p"},
			"library(IRdisplay); f <- function() for (i in 1) display_html(i); f()":          {"text/html": "1"},
		} {
			r := w.RunCode(code)
			d := displayEvents(r)
			if len(d) != 1 || r.Idle.Outcome != ipc.OutcomeOK || r.ErrText() != "" || d[0].Kind == ipc.DisplayResult {
				t.Errorf("%s: got %q, %d displays", code, r.Transcript(), len(d))
				continue
			}
			for mime, text := range want {
				if got := string(d[0].Data[mime]); got != text {
					t.Errorf("%s: %s is %q, want %q", code, mime, got, text)
				}
			}
		}
		r := w.RunCode("display(data.frame(a = 1:2))")
		if d := displayEvents(r); len(d) != 1 || !strings.Contains(string(d[0].Data["text/html"]), "<table") || len(d[0].Data["text/plain"]) == 0 {
			t.Errorf("a data frame: got %q", r.Transcript())
		}
		r = w.RunCode("cat('before\n'); display_png(as.raw(c(0x89, 0x50, 0x4e, 0x47, 0, 1))); cat('after\n')")
		var images []string
		for _, e := range r.Events {
			if i, ok := e.(ipc.Image); ok {
				images = append(images, i.MIME+" "+string(i.Data))
			}
		}
		if fmt.Sprintf("%q", images) != `["image/png \x89PNG\x00\x01"]` || !strings.HasPrefix(r.Transcript(), "before\n") || !strings.HasSuffix(r.Transcript(), "after\n") {
			t.Errorf("an image: got %q, %q", images, r.Transcript())
		}
		for code, note := range map[string]string{
			"clear_output()":                   "output is not cleared",
			"display_pdf(as.raw(1:9))":         "cannot show any of the types application/pdf",
			"display_html(strrep('x', 17e6))":  "larger than 16 MB",
			"display_png(as.raw(rep(0, 2e7)))": "larger than 16 MB",
		} {
			if r := w.RunCode(code); len(displayEvents(r)) > 0 || !strings.Contains(r.Transcript(), note) || r.Idle.Outcome != ipc.OutcomeOK {
				t.Errorf("%s: got %.300q", code, r.Transcript())
			}
		}
	})
}

func TestInspect(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{})
	w.RunCode("f <- function(x, y = 2) NULL; v <- 1:3; makeActiveBinding('trap', function() cat('ran'), globalenv())")
	for i, c := range []struct{ text, want string }{
		{"f|", "Usage: f(x, y = 2)\n"},
		{"f(1, |", "Usage: f(x, y = 2)\n"},
		{"v|", "Class: integer\nType: integer\nSize: 3\n"},
		{"mean|", "Usage: mean(x, ...)\n\nArithmetic Mean\n"},
		{"stats::sd|", "Usage: sd(x, na.rm = FALSE)\n\nStandard Deviation\n"},
		{"trap|", ""}, {"nothing_there|", ""}, {"|", ""}, {"1 + |", ""},
	} {
		at := strings.Index(c.text, "|")
		w.SendMessage(ipc.Query{ID: uint64(i), Kind: ipc.QueryInspect, Text: strings.Replace(c.text, "|", "", 1), Cursor: uint64(at)})
		m, ok := w.NextEvent().(ipc.QueryResult)
		if got := string(m.Data["text/plain"]); !ok || m.Status != ipc.StatusOK || !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %q %s, want %q", c.text, got, m.Status, c.want)
		}
	}
	w.RunCode("cat('still here\\n')").WantOutput(t, "still here\n")
}
