//go:build linux || darwin

package r_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// describeTurn returns a turn as text, with its images in order: [plot-1 "its title"], and [plot-1
// again] for an update. It fails the test if an image is blank.
func describeTurn(t *testing.T, r result) string {
	t.Helper()
	var b strings.Builder
	for _, e := range r.Events {
		switch e := e.(type) {
		case rawworker.MergedText:
			b.WriteString(e.Data)
		case ipc.StdinWait:
			fmt.Fprintf(&b, "[wait %s]", e.Kind)
		case ipc.Image:
			if countColors(decodeImage(t, e)) < 2 {
				t.Errorf("%s is blank", e.Source)
			}
			what := e.Source
			if e.Update {
				what += " again"
			}
			if e.Title != "" {
				what += fmt.Sprintf(" %q", e.Title)
			}
			b.WriteString("[" + what + "]")
		}
	}
	return b.String()
}

func decodeImage(t *testing.T, i ipc.Image) image.Image {
	t.Helper()
	plot, err := png.Decode(bytes.NewReader(i.Data))
	if err != nil || i.MIME != "image/png" {
		t.Fatalf("an image of type %s: %v", i.MIME, err)
	}
	return plot
}

func countColors(p image.Image) int {
	seen := map[any]bool{}
	for y := p.Bounds().Min.Y; y < p.Bounds().Max.Y; y++ {
		for x := p.Bounds().Min.X; x < p.Bounds().Max.X; x++ {
			seen[p.At(x, y)] = true
		}
	}
	return len(seen)
}

func imageEvents(r result) []ipc.Image {
	var all []ipc.Image
	for _, e := range r.Events {
		if i, ok := e.(ipc.Image); ok {
			all = append(all, i)
		}
	}
	return all
}

type plotCase struct{ code, want string }

// runPlotCases runs one turn after the other in one session.
func runPlotCases(t *testing.T, w *worker, turns []plotCase) {
	t.Helper()
	for _, c := range turns {
		if got := describeTurn(t, w.RunCode(c.code)); got != c.want {
			t.Errorf("%s\ngot  %q\nwant %q", c.code, got, c.want)
		}
	}
}

func TestPlots(t *testing.T) {
	t.Parallel()

	t.Run("sends each page once", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		runPlotCases(t, w, []plotCase{
			{"plot(1:3, main = 'one')", `[plot-1 "one"]`},
			{"1", "[1] 1\n"},
			{"lines(3:1)", `[plot-1 again "one"]`},
			{"op <- par(mar = c(4, 4, 1, 1)); par(op)", ""},
			{"plot(2)", "[plot-2]"},
			{"for (i in 1:3) plot(i)", "[plot-3][plot-4][plot-5]"},
			{"par(mfrow = c(1, 2))", ""},
			{"plot(1, main = 'left')", `[plot-6 "left"]`},
			{"plot(2)", `[plot-6 again "left"]`},
			{"par(mfrow = c(1, 1)); plot(lm(dist ~ speed, cars))", "[plot-7][plot-8][plot-9][plot-10]"},
			{"plot.new()", ""},
			{"plot(1)", "[plot-11]"},
			{"plot(1:3); stop('after it')", "[plot-12]Error: after it\n"},
			{"r <- recordPlot()", ""},
			{"plot(4, main = 'closed'); invisible(dev.off())", "[plot-13]"},
			{"plot(1:2); invisible(dev.off()); plot(2:1)", "[plot-14][plot-15]"},
			{"invisible(dev.off())", ""},
			{"replayPlot(r)", "[plot-16]"},
			{"graphics.off()", ""},
			{"layout(matrix(1:2, 1)); hist(c(1, 2, 2), main = 'h')", `[plot-17 "h"]`},
			{"boxplot(1:3)", `[plot-17 again "h"]`},
			{"par(mfrow = c(1, 2)); plot(1); plot.new(); stop('after it')", "[plot-18]Error: after it\n"},
			{"dev.new(); plot(5)", "[plot-19]"},
			{"invisible(dev.set(2)); par(mfg = c(1, 1)); abline(h = 1)", "[plot-18 again]"},
			{"graphics.off(); rm(list = ls(all.names = TRUE))\nplot(1)", "[plot-20]"},
			{"setHook('plot.new', NULL, 'replace'); for (i in 1:2) plot(i, col = i)", "[plot-21][plot-22]"},
			{"dev.control('inhibit'); plot(1); plot(2); invisible(dev.off())", "[plot-23][plot-24]"},
			{"plot.new(); invisible(dev.off())", ""}, // nothing was drawn
			{"grid::grid.newpage(); graphics.off(); plot(1:3)", "[plot-25]"},
			{"dev.control('inhibit'); plot.new(); graphics.off()", ""},
		})
	})

	t.Run("ends a plot with the cell of a notebook", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, c := range []plotCase{
			{"par(mfrow = c(1, 2)); plot(1); plot(2)", "[plot-1]"},
			{"plot(3); length(dev.list())", "[plot-2][1] 1\n"},
			{"lines(3:1)", "Error in plot.xy(xy.coords(x, y), type = type, ...) : \n  plot.new has not been called yet\n"},
			{"dev.new(); dev.control('inhibit'); plot(4)",
				"[a plot is shown when its page ends: dev.control(\"inhibit\") makes R forget drawings]\n[plot-3]"},
			{"pdf(NULL); plot(5)", ""},
			{"names(dev.cur()); invisible(dev.off())", "[1] \"pdf\"\n"}, // a device of the user's own
			{"plot(6); stop('after it')", "[plot-4]Error: after it\n"},
		} {
			w.Turn++
			w.SendMessage(ipc.TurnStart{Turn: w.Turn, Input: []byte(c.code), NoExit: true, Dialect: ipc.DialectNotebook})
			if got := describeTurn(t, w.FinishTurn()); got != c.want {
				t.Errorf("%s: got %q, want %q", c.code, got, c.want)
			}
		}
		runPlotCases(t, w, []plotCase{{"plot(7)", "[plot-5]"}, {"abline(h = 7)", "[plot-5 again]"}})
	})

	t.Run("sends grid graphics", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		runPlotCases(t, w, []plotCase{
			{"library(grid)\ngrid.newpage(); grid.circle(name = 'c')", "[plot-1]"},
			{"grid.newpage(); grid.newpage(); grid.rect(gp = gpar(fill = 'red'))", "[plot-2]"},
			{"pushViewport(viewport(width = 0.5)); popViewport()", ""},
			{"grid.lines()", "[plot-2 again]"},
			{"grid.newpage()", ""},
			{"if (requireNamespace('lattice', quietly = TRUE)) lattice::xyplot(1 ~ 1) else plot(1)", "[plot-3]"},
		})
		if w.RunCode("cat(requireNamespace('ggplot2', quietly = TRUE))").OutputText() != "TRUE" { // its value is invisible
			t.Skip("ggplot2 is not installed: install it with apt-get install r-cran-ggplot2")
		}
		w.RunCode("suppressPackageStartupMessages(library(ggplot2)); p <- ggplot(mtcars, aes(wt, mpg)) + geom_point()")
		runPlotCases(t, w, []plotCase{
			{"p", "[plot-4]"},
			{"g <- ggplotGrob(p)", ""},
			{"for (i in 1:2) { print(p + ggtitle(i)); cat('done', i, '\\n') }", "[plot-5]done 1 \n[plot-6]done 2 \n"},
			{"f <- tempfile(fileext = '.png'); ggsave(f, p, width = 4, height = 3); file.exists(f)", "[1] TRUE\n"},
			{"print(p + geom_smooth(method = 'lm')); cat('done\\n')", "`geom_smooth()` using formula = 'y ~ x'\n[plot-7]done\n"},
		})
	})

	t.Run("come in order with text", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		runPlotCases(t, w, []plotCase{
			{"plot(1:2); cat('between\\n'); plot(2:1); cat('after\\n')", "[plot-1]between\n[plot-2]after\n"},
			{"for (i in 1:2) { cat('round', i, '\\n'); plot(i, main = i) }", "round 1 \n[plot-3 \"1\"]round 2 \n[plot-4 \"2\"]"},
			{"plot(1:2); message('m'); lines(2:1); cat('x\\n')", "[plot-5]m\n[plot-5 again]x\n"},
			{"plot(3); invisible(dev.off()); cat('closed\\n')", "[plot-6]closed\n"},
			{"plot(1:3)\nprint('a')\nlines(3:1)\nprint('b')", "[plot-7][1] \"a\"\n[plot-7 again][1] \"b\"\n"},
			{"plot(1:4); x <- readline('? ')\ny <- 1", "[plot-8]"}, // y <- 1 answers
			{"plot(1:7); system('echo child'); lines(7:1); invisible(system2('echo', 'another'))", "[plot-9]child\n[plot-9 again]another\n"},
			{"plot(1:8)\nx <- pipe('cat', 'w'); cat('piped\\n', file = x); close(x)", "[plot-10]piped\n"},
			{"dev.new(); dev.control('inhibit'); plot(9); lines(1)", "[a plot is shown when its page ends: dev.control(\"inhibit\") makes R forget drawings]\n"},
			{"graphics.off()", "[plot-11]"},
		})
		if got, want := describeTurn(t, w.RunCode("par(ask = TRUE); for (i in 1:2) plot(i); par(ask = FALSE)", "", "")), "[wait line][plot-12][wait line][plot-13]"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := describeTurn(t, w.RunCode("plot(1:5); x <- readline('? '); lines(5:1)", "go")), "[plot-14][wait line][plot-14 again]"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := describeTurn(t, w.RunCode("f <- function() { plot(1:6); browser(); lines(6:1) }; f()", "c")), "Called from: f()\n[plot-15][wait debugger][plot-15 again]"; strings.Replace(got, "[plot-15]Called from: f()\n", "Called from: f()\n[plot-15]", 1) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	t.Run("are not sent by forked children", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		child := "x <- parallel::mclapply(1:2, function(i) { plot(i); lines(1:2); invisible(dev.off()); names(dev.cur()) }); unlist(x)"
		runPlotCases(t, w, []plotCase{
			{child, "[1] \"null device\" \"null device\"\n"},
			{"plot(1:3)", "[plot-1]"},
			{child, "[1] \"png\" \"png\"\n"},
			{"lines(3:1)", "[plot-1 again]"},
			{"plot(2)", "[plot-2]"},
		})
	})

	t.Run("are sent before the end of the session", func(t *testing.T) {
		t.Parallel()
		for code, want := range map[string]string{
			"plot(1:3);q()":                    "[plot-1]",
			"plot(1:3)\nplot(2:4)\nquit('no')": "[plot-1][plot-2]",
		} {
			if got := describeTurn(t, startWorker(t, workerSetup{}).RunCode(code)); got != want {
				t.Errorf("%q: got %q, want %q", code, got, want)
			}
		}
	})

	// A callback of R's event loop may draw between turns, here a handler of R's help server.
	t.Run("are sent at once from a callback", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		r := w.RunCode("tools::startDynamicHelp(TRUE) -> port; assign('draw', function(path, query, ...) { plot(1:3); list('drawn') }, tools:::.httpd.handlers.env); cat('port', port)")
		var port int
		if _, err := fmt.Sscanf(r.OutputText()[strings.LastIndex(r.OutputText(), "port "):], "port %d", &port); err != nil {
			t.Fatalf("got %q: %v", r.Transcript(), err)
		}
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/custom/draw", port))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if plot, ok := w.NextEvent().(ipc.Image); !ok || countColors(decodeImage(t, plot)) < 2 {
			t.Errorf("got %+v", plot)
		}
	})
}

func TestPlotCheck(t *testing.T) {
	t.Parallel()

	// Checking pages runs R code during a turn's output, and must leave no trace.
	t.Run("leaves no trace in the session", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("set.seed(1); a <- runif(3); set.seed(1)")
		for _, c := range []struct{ code, out, outcome string }{
			{"plot(1); stop('own')", "Error: own\n", "error: own"},
			{"plot(1); f <- function() { cat('x\\n'); invisible(5) }; f()", "x\n", "ok"},
			{"plot(1); cat(1/3, pi, 1e-20, TRUE, 3L, 'z', fill = 12)", "0.3333333 \n3.141593 \n1e-20 TRUE \n3 z\n", "ok"},
			{"identical(a, runif(3))", "[1] TRUE\n", "ok"},
			{"plot(1); print(c(a = 1.5, b = 2)); 7", "  a   b \n1.5 2.0 \n[1] 7\n", "ok"},
			{".Last.value", "[1] 7\n", "ok"},
			{"plot(1); warning('late')", "Warning message:\nlate \n", "ok"},
			{"options(warn = 2, error = quote(cat('handler\\n'))); plot(1); plot(2)", "", "ok"},
			{"options(warn = 0, error = NULL); plot(1); capture.output(print(1))", "[1] \"[1] 1\"\n", "ok"},
			{"plot(1); try(stop('caught')); 'on'", "Error in try(stop(\"caught\")) : caught\n[1] \"on\"\n", "ok"},
			{"plot(1); tail(strsplit(capture.output(traceback()), '')[[1]], 0)", "character(0)\n", "ok"},
			{"ls(all.names = TRUE)", "[1] \".Random.seed\" \"a\"            \"f\"           \n", "ok"},
		} {
			r := w.RunCode(c.code)
			if got := describeOutcome(r); r.OutputText() != c.out || got != c.outcome {
				t.Errorf("%s\ngot  %q, %s\nwant %q, %s", c.code, r.OutputText(), got, c.out, c.outcome)
			}
		}
	})

	// An interrupt during the inspection of a page is meant for the user's code.
	t.Run("does not lose an interrupt", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("library(grid); drawDetails.slow <- function(x, recording) { grid.rect(); for (i in 1:5e5) i }")
		for i := range testmain.Rounds(12) {
			w.StartTurn("repeat { grid.newpage(); grid.draw(grob(cl = 'slow')); cat('.\\n') }") // half of its time is inspection
			w.WaitOutput(".")
			wait.Spin(time.Duration(rand.IntN(50)) * time.Millisecond)
			r := w.InterruptUntilAcked(1, uint8(1+i%2), nil, nil)
			if shown := strings.Trim(r.OutputText(), ".\n"); describeOutcome(r) != "interrupted" || shown != "" {
				t.Fatalf("round %d: got %s and %q", i, describeOutcome(r), shown)
			}
			w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
		}
	})

	// The inspection at the end of the turn does not swallow an interrupt that only a child has received.
	t.Run("does not lose the interrupt of a child", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("plot(1)")
		for range testmain.Rounds(4) {
			w.StartTurn("system('echo on; exec sleep 60')")
			w.WaitOutput("on\n")
			if r := w.InterruptUntilAcked(1, 1, nil, nil); describeOutcome(r) != "interrupted" {
				t.Fatalf("got %q, %s", r.Transcript(), describeOutcome(r))
			}
		}
	})

	// A plot is drawn once more before an input request. An interrupt during that counts, too.
	t.Run("does not lose an interrupt before an input request", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("library(grid); drawDetails.slow <- function(x, recording) { grid.rect(); for (i in 1:1e6) i }")
		for i := range testmain.Rounds(16) {
			w.StartTurn("grid.newpage(); grid.draw(grob(cl = 'slow')); readline('? ')")
			wait.Spin(time.Duration(rand.IntN(75)) * time.Millisecond)
			if r := w.InterruptUntilAcked(1, uint8(1+i%2), nil, nil); !strings.HasPrefix(describeOutcome(r), "interrupted") {
				t.Fatalf("round %d: got %q, %s", i, r.Transcript(), describeOutcome(r))
			}
		}
		w.RunCode("invisible(gc()); length(dev.list())").WantOutput(t, "[1] 1\n") // no device of the drawing is left
	})

	// Showing a page does not draw it again.
	t.Run("changes no random numbers and draws no page again", func(t *testing.T) {
		t.Parallel()
		const random = "library(grid); makeContent.rg <- function(x) setChildren(x, gList(pointsGrob(runif(5), runif(5), default.units = 'npc'))); g <- gTree(cl = 'rg')\n" +
			"show <- function(seed) { set.seed(seed); grid.newpage(); grid.draw(g) }"
		// Where a child cannot write the page, as on Windows, it is drawn again.
		const childless = "p <- .Platform; p$OS.type <- 'windows'; unlockBinding('.Platform', baseenv()); assign('.Platform', p, baseenv())"
		for name, before := range map[string]string{"by a child": "", "by a replay": childless} {
			t.Run("keeps the random numbers, "+name, func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, workerSetup{})
				w.RunCode(random + "\n" + before)
				want := w.RunCode("set.seed(7); invisible(runif(10)); runif(1)").OutputText()
				runPlotCases(t, w, []plotCase{
					{"{show(7); cat('x\\n'); a <- runif(1)}; a", "[plot-1]x\n" + want},
					{"{show(7); message('y'); a <- runif(1)}; a", "[plot-2]y\n" + want},
					{"show(7)", "[plot-3]"},
					{"runif(1)", want},
					{"{show(7); system('echo z'); a <- runif(1)}; a", "[plot-4]z\n" + want},
					{"grid.newpage(); recordGraphics(invisible(runif(1)), list(), globalenv()); grid.rect(); rm(.Random.seed); cat('c\\n'); exists('.Random.seed')", "[plot-5]c\n[1] FALSE\n"},
				})
				if got := describeTurn(t, w.RunCode("{show(7); x <- readline(); a <- runif(1)}; a", "")); got != "[plot-6][wait line]"+want {
					t.Errorf("before an input request: got %q, want %q", got, want)
				}
			})
			t.Run("shows no page a second time, "+name, func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, workerSetup{})
				w.RunCode(random + "\n" + before)
				runPlotCases(t, w, []plotCase{
					{"show(1)", "[plot-1]"},
					{"show(2)", "[plot-2]"},
					{"{show(3); cat('a\\n')}; show(4); cat('b\\n')", "[plot-3]a\n[plot-4]b\n"},
					{"grid.rect(gp = gpar(fill = NA))", "[plot-4 again]"},
					{"plot(1)", "[plot-5]"},
					{"for (i in 1:2) { show(i); cat(i, '\\n') }", "[plot-6]1 \n[plot-7]2 \n"},
				})
			})
		}
		t.Run("shows no page a second time when it is closed", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, workerSetup{})
			w.RunCode(random)
			runPlotCases(t, w, []plotCase{
				{"show(1)", "[plot-1]"},
				{"invisible(dev.off())", ""},
				{"{show(2); cat('a\\n'); invisible(dev.off())}", "[plot-2]a\n"},
			})
		})
		t.Run("is before a value, never in it", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, workerSetup{})
			runPlotCases(t, w, []plotCase{
				{"plot(1); pdf(NULL); plot(2); dev.list(); dev.off()", "png pdf \n  2   3 \n[plot-1]png \n  2 \n"},
				{"for (i in 1:9) cat(i, ''); lines(1:2); c(a = 1, b = 2)", "1 2 3 4 5 6 7 8 9 [plot-1 again]a b \n1 2 \n"},
				{"1:3\nabline(h = 1)\nlist(1, 2)", "[1] 1 2 3\n[plot-1 again][[1]]\n[1] 1\n\n[[2]]\n[1] 2\n\n"},
			})
		})
		t.Run("runs no recorded code", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, workerSetup{})
			runPlotCases(t, w, []plotCase{
				{"n <- 0; plot(1); recordGraphics({n <<- n + 1; rect(0.8, 0.8, 1.2, 1.2)}, list(), globalenv()); cat('x\\n')", "[plot-1]x\n"},
				{"lines(1:2); cat('y\\n')", "[plot-1 again]y\n"},
				{"plot(2); n", "[plot-2][1] 1\n"},
			})
		})
		t.Run("works next to file devices", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, workerSetup{WorkerOptions: rawworker.WorkerOptions{Dir: t.TempDir()}})
			w.RunCode(random)
			runPlotCases(t, w, []plotCase{
				{"pdf(NULL); png('own.png'); dev.new()", ""},
				{"show(1)", "[plot-1]"},
				{"show(2)", "[plot-2]"},
				{"invisible(dev.off()); dev.list()", "pdf png \n  2   3 \n"},
				{"invisible(dev.set(3)); plot(1); invisible(dev.off()); file.size('own.png') > 1000", "[1] TRUE\n"},
			})
		})
	})
}

func TestPlotDevice(t *testing.T) {
	t.Parallel()

	t.Run("leaves the devices of the user alone", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		w := startWorker(t, workerSetup{WorkerOptions: rawworker.WorkerOptions{Dir: dir}})
		runPlotCases(t, w, []plotCase{
			{"png('own.png'); plot(1); invisible(dev.off())", ""},
			{"pdf('own.pdf'); plot(1)", ""},
			{"cat('text\\n'); plot(2)", "text\n"},
			{"invisible(dev.off())", ""},
			{"plot(1:3)", "[plot-1]"},
			{"invisible(dev.copy(png, 'copy.png')); invisible(dev.off())", ""},
			{"pdf(NULL); plot(1); cat(names(dev.cur()), '\\n')", "pdf \n"},
			{"invisible(dev.off()); lines(3:1)", "[plot-1 again]"},
			{"graphics.off(); options(device = 'pdf'); plot(1); cat(names(dev.cur()), '\\n')", "pdf \n"},
			{"graphics.off(); sort(list.files(), method = 'radix')", "[1] \"Rplots.pdf\" \"copy.png\"   \"own.pdf\"    \"own.png\"   \n"},
		})
	})

	t.Run("respects the device that a profile sets", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct{ name, profile, story string }{
			{"a file device is kept", `options(device = "pdf")`, "pdf \n"},
			{"a screen is replaced", `options(device = "X11")`, "png \n[plot-1]"},
			{"a function is replaced", `options(device = function(...) pdf(NULL))`, "png \n[plot-1]"},
			{"a function is kept on request", `options(device = function(...) pdf(NULL), turnstone.device = FALSE)`, "pdf \n"},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, workerSetup{rprofile: c.profile, WorkerOptions: rawworker.WorkerOptions{Dir: t.TempDir()}})
				if got := describeTurn(t, w.RunCode("dev.new(); cat(names(dev.cur()), '\\n'); plot(1)")); got != c.story {
					t.Errorf("got %q, want %q", got, c.story)
				}
			})
		}
	})

	t.Run("plots have the requested size", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{options: r.Options{Width: 640, Height: 400, Resolution: 80}})
		for _, c := range []struct {
			code   string
			bounds image.Point
		}{
			{"plot(1)", image.Pt(640, 400)},
			{"options(repr.plot.width = 5, repr.plot.height = 4); plot(1)", image.Pt(400, 320)},
			{"options(repr.plot.res = 160); par(mfrow = c(1, 2)); plot(1); plot(2)", image.Pt(800, 640)},
			{"options(repr.plot.width = NULL, repr.plot.height = NULL, repr.plot.res = NULL); grid::grid.newpage(); grid::grid.rect(width = 0.5)", image.Pt(640, 400)},
			{"dev.new(width = 3, height = 2); plot(1)", image.Pt(240, 160)},
			{"dev.new(width = 300, height = 200, units = 'px'); plot(1)", image.Pt(300, 200)},
			{"options(repr.plot.width = 'wide'); graphics.off(); plot(1)", image.Pt(640, 400)},
		} {
			shown := imageEvents(w.RunCode(c.code))
			if len(shown) != 1 {
				t.Errorf("%s: %d plots", c.code, len(shown))
			} else if got := decodeImage(t, shown[0]).Bounds().Size(); got != c.bounds {
				t.Errorf("%s: %v, want %v", c.code, got, c.bounds)
			}
		}
		r := w.RunCode("graphics.off(); options(repr.plot.width = 1000); plot(1)")
		if want := "Error: a plot of 80000 x 400 pixels is too large: a side has at most 16384; lengths are in inches unless units = \"px\"\n"; r.ErrText() != want {
			t.Errorf("got %q, want %q", r.ErrText(), want)
		}
	})

	t.Run("limits number and size of plots", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{options: r.Options{Width: 240, Height: 240, Resolution: 40}}) // small plots are drawn quickly
		for _, code := range []string{
			"for (i in 1:60) plot(i)",
			"for (i in 1:60) { plot(i); cat('.') }",
		} {
			r := w.RunCode(code)
			if n := len(imageEvents(r)); n != 51 || !strings.Contains(r.ErrText(), "[9 more finished plots are not shown: the limit is 50 at a time]\n") {
				t.Errorf("%s: %d plots and %q", code, n, r.ErrText())
			}
		}
		r := w.RunCode("for (i in 1:52) { plot(i); invisible(dev.off()) }")
		if n := len(imageEvents(r)); n != 50 || !strings.Contains(r.ErrText(), "[2 more finished plots") {
			t.Errorf("%d images and %q", n, r.ErrText())
		}
		runPlotCases(t, w, []plotCase{
			{"plot(1); invisible(dev.off())", fmt.Sprintf("[plot-%d]", 51+51+50+1)},
			{"for (i in 1:62) pdf(NULL); try(dev.new(), silent = TRUE); cat(geterrmessage())", "Error : too many open devices\n"},
			{"graphics.off(); e <- environment(environment(getOption('device'))$plots$open); e$MAX_BYTES <- 1000; plot(1)", "[a plot of 0 MB is not shown: the limit is 0 MB]\n"},
			{"e$MAX_BYTES <- 60e6; plot(2)", fmt.Sprintf("[plot-%d]", 51+51+50+2)},
		})
	})

	t.Run("survives removal of its directory", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		runPlotCases(t, w, []plotCase{
			{"plot(1)", "[plot-1]"},
			{"unlink(tempdir(), recursive = TRUE); plot(2)", "[plot-2]"},
			{"plot(3)", "[plot-3]"},
			{"graphics.off(); unlink(tempdir(), recursive = TRUE); plot(4)", "[plot-4]"},
		})
	})

	// An R that cannot draw PNG files says so once, and code that plots continues.
	t.Run("reports once that R cannot write PNG", func(t *testing.T) {
		t.Parallel()
		for name, does := range map[string]string{"an error": "stop", "a warning": "warning"} { // a warning: cairo's library is missing
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				w := startWorker(t, workerSetup{WorkerOptions: rawworker.WorkerOptions{Dir: dir}, rprofile: fmt.Sprintf(`
local({
  env <- asNamespace("grDevices")
  unlockBinding("png", env)
  assign("png", function(...) %s("unable to start png() device"), envir = env)
})`, does)})
				r := w.RunCode("plot(1)\ncat('on\\n')")
				if !strings.Contains(r.ErrText(), "[plots are not shown: this R cannot draw into PNG files here;") || !strings.HasSuffix(r.OutputText(), "on\n") || describeOutcome(r) != "ok" {
					t.Errorf("got %q, %s", r.Transcript(), describeOutcome(r))
				}
				runPlotCases(t, w, []plotCase{{"lines(1); graphics.off(); plot(2); dev.new(); plot(3); list.files()", "character(0)\n"}})
			})
		}
	})

	t.Run("reports a plot that does not fit on the disk", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("plot(1); e <- environment(environment(getOption('device'))$plots$open); whole <- e$bytes_of")
		for _, n := range []string{"0L", "100L"} {
			w.RunCode("e$bytes_of <- function(file) utils::head(whole(file), " + n + ")")
			for _, code := range []string{"plot(2)", "plot(3); invisible(dev.off())"} {
				if r := w.RunCode(code); !strings.Contains(r.ErrText(), "[a plot could not be shown: no space left in ") || len(imageEvents(r)) > 0 {
					t.Errorf("%s with %s bytes: got %q", code, n, r.Transcript())
				}
			}
		}
		w.RunCode("e$bytes_of <- whole")
		if got := describeTurn(t, w.RunCode("plot(4)")); !strings.HasPrefix(got, "[plot-") {
			t.Errorf("got %q", got)
		}
	})
}

// No device is opened or inspected in a session that does not draw, and few in one that does.
func BenchmarkPlots_TurnBesideAnOpenPlot(b *testing.B) {
	w := startWorker(b, workerSetup{})
	run := func(b *testing.B) {
		for b.Loop() {
			w.RunCode("1+1")
		}
	}
	b.Run("before", run)
	w.RunCode("plot(1)")
	b.Run("open", run)
	w.RunCode("graphics.off()")
	b.Run("closed", run)
	b.Run("plot", func(b *testing.B) {
		for b.Loop() {
			w.RunCode("plot(1)")
		}
	})
}
