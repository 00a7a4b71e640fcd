//go:build linux || darwin

package r_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
)

// wantContains fails the test unless the turn ended without an input request and printed all of these.
func wantContains(t *testing.T, w *worker, code string, wants ...string) {
	t.Helper()
	r := w.RunCode(code)
	for _, want := range wants {
		if !strings.Contains(r.OutputText(), want) {
			t.Errorf("%s\nlacks %q in\n%.2000s", code, want, r.Transcript())
		}
	}
	if strings.ContainsAny(r.OutputText(), "\b\x1b") {
		t.Errorf("%s: overstrikes or escapes: %.500q", code, r.OutputText())
	}
	if strings.Contains(r.Transcript(), "[wait") {
		t.Errorf("%s requests input: %.500s", code, r.Transcript())
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()

	t.Run("prints help as text", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{rprofile: `options(help_type = "html")`})
		wantContains(t, w, "?mean", "Arithmetic Mean", "trim: the fraction (0 to 0.5)")
		wantContains(t, w, "help(sd, package = 'stats')", "Standard Deviation")
		wantContains(t, w, "??loess", "stats::loess", "Local Polynomial Regression Fitting")
		wantContains(t, w, "?no_such_topic", "No documentation for")
		wantContains(t, w, "library(help = splines)", "Information on package", "bs  ")
		wantContains(t, w, "data(package = 'datasets')", "mtcars                  Motor Trend Car Road Tests")
		wantContains(t, w, "citation()", "R: A Language and Environment for Statistical")
		wantContains(t, w, "example(mean, ask = FALSE)", "mean> xm <- mean(x)")
		wantContains(t, w, "vignette(package = 'grid')")
		wantContains(t, w, "page(sd)", "sqrt(var(")
		wantContains(t, w, "f <- tempfile(); writeLines(c('a', '_\\b_b \\u00e9'), f); file.show(f, title = 'T')", "a\n")
		wantContains(t, w, "help.start()", "Statistical Data Analysis", "An Introduction to R")
		wantContains(t, w, "options(help_type = 'html'); ?var", "## Correlation, Variance and Covariance (Matrices)", "### Usage", "var(x, y = NULL, na.rm = FALSE, use)")
		w.RunCode("ls(all.names = TRUE)").WantOutput(t, "[1] \".Random.seed\" \"f\"            \"x\"            \"xm\"          \n")
	})

	t.Run("opens no browser", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{rprofile: `options(browser = "sh -c 'echo OPENED'")`})
		for code, want := range map[string]string{
			"browseURL('https://www.r-project.org/a?b=1#c')": "[a session has no browser: https://www.r-project.org/a?b=1#c]\n",
			"browseURL('http://127.0.0.1:1/app')":            "[a session has no browser: http://127.0.0.1:1/app]\n",
			"browseURL('file:///no/such/file.html')":         "[no such file: /no/such/file.html]\n",
		} {
			if r := w.RunCode(code); r.OutputText() != want || describeOutcome(r) != "ok" {
				t.Errorf("%s: got %q, %s; want %q", code, r.Transcript(), describeOutcome(r), want)
			}
		}
		wantContains(t, w, "RSiteSearch('loess')", "[a session has no browser: http", "//search.r-project.org/")
	})

	// A pager that a profile sets to an R function stays; a program is replaced.
	t.Run("keeps the browser, editor and pager of a profile", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{rprofile: `options(browser = function(url) cat("mine:", url, "\n"), editor = function(name, file, title) { cat("edits\n"); name }, pager = function(files, ...) cat("pages\n"))`})
		wantContains(t, w, "browseURL('https://a.b')", "mine: https://a.b \n")
		wantContains(t, w, "x <- edit(1)", "edits\n")
		wantContains(t, w, "file.show('/etc/hosts')", "pages\n")
		w.RunCode("options(browser = function(url) cat('later\\n')); browseURL('https://a.b')").WantOutput(t, "later\n")
	})

	t.Run("prints HTML pages as text", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode(`f <- tempfile(fileext = ".html"); writeLines('<!DOCTYPE html><html><head><title>T</title><style>p < b {}</style></head>
<body><h1 id="top">Main &amp; co</h1>
<p>Hello <b>bold</b>
 world &lt;x&gt; &eacute; &#8217; &amp;lt; <a href="https://x.org/a?b=1&amp;c=2">link</a>, <a href="#sec">local</a></p><!-- <p>hidden</p> -->
<ul><li><p>one</p></li><li>two <br>more</li></ul>
<script>if (a < b && "</p>") { document.write("<p>no</p>") }</script>
<pre><code>x &lt;- 1
  y &lt;- 2
</code></pre>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<h2 id="sec">Section</h2><p>in it</p><h3>Sub</h3><p>sub</p><h2><a name="other"></a>Other</h2><p>3 < 4</p><img alt="a > b" src="data:image/png;base64,AAAA">
</body></html>', f, useBytes = TRUE)`)
		w.RunCode("browseURL(paste0('file://', f))").WantOutput(t, "# Main & co\n\nHello bold world <x> é ’ &lt; link <https://x.org/a?b=1&c=2>, local\n\n- one\n\n- two\nmore\n\n"+
			"x <- 1\n  y <- 2\n\na\tb\n\n1\t2\n\n## Section\n\nin it\n\n### Sub\n\nsub\n\n## Other\n\n3 < 4\n\na > b\n")
		w.RunCode("browseURL(paste0(f, '#sec'))").WantOutput(t, "## Section\n\nin it\n\n### Sub\n\nsub\n")
		w.RunCode("browseURL(paste0(f, '#other'))").WantOutput(t, "## Other\n\n3 < 4\n\na > b\n")
		wantContains(t, w, "writeLines('<html><script>draw()</script></html>', f); browseURL(f)", "[nothing to show as text: ")
		wantContains(t, w, "g <- tempfile(fileext = '.zip'); file.create(g); browseURL(g)", "[not shown as text: ")
		wantContains(t, w, "writeLines(c('<p>', rep('x', 3e6)), f); browseURL(f)", "[not shown as text: ")
		wantContains(t, w, "browseURL(tempdir())", "[a directory: ")
	})

	t.Run("prints vignettes as text", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode(`home <- file.path(tempdir(), "pkg"); dir.create(file.path(home, "doc"), recursive = TRUE)
writeLines("<html><body><p>from html</p></body></html>", file.path(home, "doc", "a.html"))
writeLines("from source", file.path(home, "doc", "a.Rnw"))
v <- function(pdf) structure(list(PDF = pdf, File = "a.Rnw", Dir = home, R = "", Topic = "a"), class = "vignette")`)
		w.RunCode("v('')").WantOutput(t, "from source\n")
		wantContains(t, w, "v('a.html')", "from html\n")
		wantContains(t, w, "structure(list(pkg = cbind(Dir = home, File = 'a.Rnw', Title = 'About a', PDF = '', R = '')), class = 'browseVignettes')",
			"Vignettes in package 'pkg':\n  a  About a\n", `vignette("NAME", package = "PACKAGE") shows one.`)
	})

	t.Run("opens no editor", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{rprofile: `options(editor = "vi")`, WorkerOptions: rawworker.WorkerOptions{Env: []string{"DISPLAY=:99"}}})
		for _, code := range []string{"edit(1:3)", "edit(mtcars)", "edit(diag(2))", "fix(mtcars)", "vi()", "emacs()", "edit(1, editor = 'nano')", "file.edit('x.R')", "data.entry(1)", "dataentry(list(1), list('numeric'))"} {
			r := w.RunCode(code)
			if want := "error: a session has no editor; change the object or the file with R code, or set options(editor = ) to an R function"; describeOutcome(r) != want || strings.Count(r.OutputText(), "\n") != 1 {
				t.Errorf("%s: got %q, %s", code, r.Transcript(), describeOutcome(r))
			}
		}
		w.RunCode("options(editor = function(name, file, title) paste(name, title)); print(edit(1:2))").WantOutput(t, "[1] \"1 1:2\" \"2 1:2\"\n")
	})

	t.Run("View prints text", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, c := range []struct{ code, want string }{
			{"View(women[1:2, ])", "women[1:2, ]: 2 rows, 2 columns\n  height weight\n1     58    115\n2     59    117\n"},
			{"utils::View(data.frame(a = 1), 'mine')", "mine: 1 row, 1 column\n  a\n1 1\n"},
			{"x <- diag(3); View(x)", "x: 3 rows, 3 columns\n     [,1] [,2] [,3]\n[1,]    1    0    0\n[2,]    0    1    0\n[3,]    0    0    1\n"},
			{"View(list(a = 1))", "list(a = 1)\nList of 1\n $ a: num 1\n"},
			{"View(women[0, ])", "women[0, ]: 0 rows, 2 columns\n[1] height weight\n<0 rows> (or 0-length row.names)\n"},
		} {
			w.RunCode(c.code).WantOutput(t, c.want)
		}
		got := w.RunCode("View(as.data.frame(matrix(0L, 1000, 30)))").OutputText()
		if !strings.Contains(got, ": 1000 rows, 30 columns; the first 20 rows, 20 columns\n") || strings.Contains(got, "V21") || strings.Contains(got, "\n21 ") {
			t.Errorf("got %q", got)
		}
	})

	// The PDF viewer prints the path, and exits before the turn ends.
	t.Run("RShowDoc prints the path of a PDF", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("lib <- tempfile(); dir.create(d <- file.path(lib, 'fake', 'doc'), recursive = TRUE); .libPaths(lib)")
		w.RunCode("writeLines(c('Package: fake', 'Version: 1.0'), file.path(lib, 'fake', 'DESCRIPTION')); x <- file.create(file.path(d, 'x.pdf'))")
		where := w.RunCode("cat(file.path(d, 'x.pdf'), '\n', sep = '')").OutputText()
		for range 20 {
			w.RunCode("RShowDoc('x', 'pdf', 'fake')").WantOutput(t, where)
		}
	})
}

func TestWorkerCode(t *testing.T) {
	t.Parallel()

	t.Run("its task callback takes no number from the user", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, c := range []struct{ code, want string }{
			{"addTaskCallback(function(...) TRUE)", "1 \n1 \n"},
			{"addTaskCallback(function(expr, value, ok, visible, data) { cat('data', data, '\\n'); TRUE }, data = 5, name = 'mine')", "mine \n   2 \ndata 5 \n"},
			{"getTaskCallbackNames()", "[1] \"1\"    \"mine\"\ndata 5 \n"},
			{"removeTaskCallback(2)", "[1] TRUE\n"},
			{"addTaskCallback(1)", "<err>Error in addTaskCallback(1) : handler must be a function\n</err>"},
			{"removeTaskCallback(1); removeTaskCallback(1)", "[1] TRUE\n[1] FALSE\n"},
			{"getTaskCallbackNames()", "character(0)\n"},
		} {
			if got := w.RunCode(c.code).Transcript(); got != c.want {
				t.Errorf("%s: got %q, want %q", c.code, got, c.want)
			}
		}
		if got := displayEvents(w.RunCode("women")); len(got) != 1 {
			t.Errorf("a table is shown %d times", len(got))
		}
	})

	// The worker's R code is not visible to user code, and does not interfere with it.
	t.Run("is invisible to the user", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("ls(all.names = TRUE); search()").WantOutput(t, "character(0)\n[1] \".GlobalEnv\"        \"package:stats\"     \"package:graphics\" \n[4] \"package:grDevices\" \"package:utils\"     \"package:datasets\" \n[7] \"package:methods\"   \"Autoloads\"         \"package:base\"     \n")
		w.RunCode("getDLLRegisteredRoutines('turnstone'); isNamespaceLoaded('tools')")
		w.RunCode("c <- cat <- list <- function(...) stop('masked'); `[[` <- `<-` <- NULL; T <- FALSE; paste0 <- 1")
		if got := describeTurn(t, w.RunCode("plot(1)")); got != "[plot-1]" {
			t.Errorf("got %q", got)
		}
		wantContains(t, w, "browseURL('https://a.b')", "[a session has no browser: https://a.b]\n")
		w.RunCode("rm(list = ls(all.names = TRUE)); for (p in paste0('package:', base::c('stats', 'graphics', 'grDevices', 'utils', 'datasets'))) detach(p, character.only = TRUE)")
		if got := describeTurn(t, w.RunCode("graphics::plot.default(2)")); got != "[plot-2]" {
			t.Errorf("got %q", got)
		}
		w.RunCode("utils::View(1)").WantOutput(t, "1\n num 1\n")
	})

	// R works without its default packages. The functions of a package are replaced when it is loaded.
	t.Run("works without the default packages", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{WorkerOptions: rawworker.WorkerOptions{Env: []string{"R_DEFAULT_PACKAGES=NULL"}}})
		w.RunCode("search()").WantOutput(t, "[1] \".GlobalEnv\"   \"Autoloads\"    \"package:base\"\n")
		if got := describeTurn(t, w.RunCode("graphics::plot.default(2)")); got != "[plot-1]" {
			t.Errorf("got %q", got)
		}
		w.RunCode("library(utils); View(1)").WantOutput(t, "1\n num 1\n")
	})
}
