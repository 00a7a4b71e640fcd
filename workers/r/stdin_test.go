//go:build linux || darwin

package r_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestStdin(t *testing.T) {
	t.Parallel()

	t.Run("distinguishes the kinds of input requests", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, c := range []struct {
			name, code string
			answers    []string
			want       string // see Script
		}{
			{"readline", "x <- readline('n? ')\n", []string{"Ada"}, `[wait line line "n? "][line "Ada"]`},
			{"and what it read", "x", nil, "[1] \"Ada\"\n"},
			{"an empty line", "cat(nchar(readline()), '\\n')", []string{"\n"}, `[wait line line ""][line ""]0 ` + "\n"},
			{"end of file", "nchar(readline('? '))", []string{""}, `[wait line line "? "][1] 0` + "\n"},
			{"end of file is not sticky", "for (i in 1:2) print(readline())", []string{"", "x"}, `[wait line line ""][1] ""` + "\n" + `[wait line line ""][line "x"][1] "x"` + "\n"},
			{"readline takes the turn's next line", "x <- readline('n? ')\nGrace\nx", nil, `[line 2 "Grace"][1] "Grace"` + "\n"},
			{"readLines", "readLines(stdin(), 2)", []string{"a", "b"}, `[wait line line ""][line "a"][wait line line ""][line "b"][1] "a" "b"` + "\n"},
			{"readLines to the end", "readLines(stdin())", []string{"a", ""}, `[wait line line ""][line "a"][wait line line ""][1] "a"` + "\n"},
			{"readLines of the turn's lines", "readLines(stdin(), 2)\nü\nb b", nil, `[line 2 "ü"][line 3 "b b"][1] "ü"   "b b"` + "\n"},
			{"scan", "x <- scan()", []string{"1 2 3", "\n"}, `[wait line line "1: "][line "1 2 3"][wait line line "4: "][line ""]<err>Read 3 items` + "\n</err>"},
			{"scan of the turn's lines", "scan(quiet = TRUE)\n4 5\n\n6", nil, `[line 2 "4 5"][line 3 ""][1] 4 5` + "\n[1] 6\n"},
			{"scan of one", "scan(n = 1, quiet = TRUE)", []string{"7"}, `[wait line line "1: "][line "7"][1] 7` + "\n"},
			{"scan text", "scan(what = '', quiet = TRUE)", []string{"a 'b c'", ""}, `[wait line line "1: "][line "a 'b c'"][wait line line "3: "][1] "a"   "b c"` + "\n"},
			{"menu", "menu(c('yes', 'no'), title = 'Sure?')", []string{"2"}, "Sure? \n\n1: yes\n2: no\n\n" + `[wait line line "Selection: "][line "2"][1] 2` + "\n"},
			{"menu insists", "menu(c('a', 'b'))", []string{"x", "1"}, "\n1: a\n2: b\n\n" + `[wait line line "Selection: "][line "x"]Enter an item from the menu, or 0 to exit` + "\n" + `[wait line line "Selection: "][line "1"][1] 1` + "\n"},
			{"askYesNo", "askYesNo('Go?')", []string{"y"}, `[wait line line "Go? (Yes/no/cancel) "][line "y"][1] TRUE` + "\n"},
			{"file('stdin') is the terminal's", "close(file('stdin'))", nil, ""},
			{"browser", "browser()", []string{"6 * 7", "Q"}, "Called from: top level \n" + `[wait debugger line "Browse[1]> "][line "6 * 7"][1] 42` + "\n" + `[wait debugger line "Browse[1]> "][line "Q"]`},
			{"browser goes on", "browser()\nc\n'on'", nil, "Called from: top level \n" + `[line 2 "c"][1] "on"` + "\n"},
			{"browser at the end of the file goes on", "f <- function() { browser(); 'on' }\nf()", []string{"", ""}, "Called from: f()\n" + `[wait debugger line "Browse[1]> "]debug at #1: [1] "on"` + "\n" + `[wait debugger line "Browse[1]> "][1] "on"` + "\n"},
			{"a nested browser", "browser()", []string{"browser()", "'deep'", "c", "c"}, "Called from: top level \n" + `[wait debugger line "Browse[1]> "][line "browser()"]` + "Called from: top level \n" + `[wait debugger line "Browse[2]> "][line "'deep'"][1] "deep"` + "\n" + `[wait debugger line "Browse[2]> "][line "c"][wait debugger line "Browse[1]> "][line "c"]`},
			{"readline in the browser", "browser()", []string{"readline('in? ')", "here", "c"}, "Called from: top level \n" + `[wait debugger line "Browse[1]> "][line "readline('in? ')"][wait line line "in? "][line "here"][1] "here"` + "\n" + `[wait debugger line "Browse[1]> "][line "c"]`},
			{"an error in the browser", "browser()", []string{"stop('oh')", "1", "c"}, "Called from: top level \n" + `[wait debugger line "Browse[1]> "][line "stop('oh')"]<err>Error: oh` + "\n" + `</err>[wait debugger line "Browse[1]> "][line "1"][1] 1` + "\n" + `[wait debugger line "Browse[1]> "][line "c"]`},
			{"readline in a function in a loop", "for (p in c('a? ', 'b? ')) cat('<', (function(p) readline(p))(p), '>\\n', sep = '')", []string{"1", "2"}, `[wait line line "a? "][line "1"]<1>` + "\n" + `[wait line line "b? "][line "2"]<2>` + "\n"},
			{"a very long prompt", "nchar(readline(strrep('p', 300)))", []string{"four"}, ""},
		} {
			r := w.RunCode(c.code, c.answers...)
			got := r.Transcript()
			if strings.Contains(c.code, "f()") { // before R 4.5, stepping has its own browser level
				got = strings.ReplaceAll(got, "Browse[2]", "Browse[1]")
			}
			if c.want != "" && got != c.want || describeOutcome(r) != "ok" && describeOutcome(r) != "interrupted" {
				t.Errorf("%s: got %q\nwant %q, %s", c.name, got, c.want, describeOutcome(r))
			}
		}
	})

	t.Run("a page prompt is an input request", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		r := w.RunCode("pdf(NULL); par(ask = TRUE); plot(1); plot(2); invisible(dev.off())", "\n", "\n")
		if !strings.Contains(r.Transcript(), `[wait line line "Hit <Return> to see next plot: "]`) {
			t.Errorf("got %q, %s", r.Transcript(), describeOutcome(r))
		}
	})

	t.Run("answers a quit that asks", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		r := w.RunCode("q('ask')", "c")
		if got := r.Transcript(); !strings.Contains(got, `[wait line line "Save workspace image? [y/n/c]: "][line "c"]`) || r.Idle == nil {
			t.Fatalf("got %q, %s", got, describeOutcome(r))
		}
		w.RunCode("'still here'").WantOutput(t, "[1] \"still here\"\n")
		if r = w.RunCode("q('ask')", "n"); r.End == nil || r.End.Reason != ipc.EndExit || w.ExitStatus().ExitStatus() != 0 {
			t.Fatalf("got %q, %+v", r.Transcript(), r.End)
		}
	})

	t.Run("long lines arrive complete", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		line := strings.Repeat("é", 20_000)
		r := w.RunCode("x <- readLines(stdin(), 1); nchar(x); identical(x, strrep('\\u00e9', 20000))", line)
		if !strings.HasSuffix(r.OutputText(), "[1] TRUE\n") {
			t.Errorf("got %.300q", r.Transcript())
		}
		if n := strings.Count(r.Transcript(), "[line"); n != 1 {
			t.Errorf("one line was reported %d times", n)
		}
		if r := w.RunCode("nchar(readline())", strings.Repeat("x", 10_000), "rest"); r.Idle == nil { // R's buffer is shorter
			t.Errorf("got %.300q", r.Transcript())
		}
		w.RunCode("1").WantOutput(t, "[1] 1\n")
	})

	t.Run("drops the answer to a request that is over", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		var old ipc.StdinWait
		w.OnInputRequest = func(m ipc.StdinWait) bool {
			old = m
			w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 1})
			return true
		}
		if r := w.RunCode("readline('a? ')"); describeOutcome(r) != "interrupted" {
			t.Fatalf("got %q, %s", r.Transcript(), describeOutcome(r))
		}
		w.OnInputRequest = nil
		w.AnswerRequest(old, "too late")
		w.StartTurn("x <- readline('b? ')")
		w.AnswerRequest(old, "too late")
		w.FinishTurn("in time")
		w.RunCode("x").WantOutput(t, "[1] \"in time\"\n")
	})

	t.Run("a profile may ask for input", func(t *testing.T) {
		t.Parallel()
		for name, s := range map[string]workerSetup{
			".Rprofile":     {rprofile: "who <- readline('who? ')\ncat('hello', who, '\\n')\n"},
			"Rprofile.site": {siteProfile: "who <- readline('who? ')\ncat('hello', who, '\\n')\nassign('who', who, globalenv())\n"},
		} {
			s.NoTurn0 = true
			w := startWorker(t, s)
			w.TakeReady()
			r := w.FinishTurn("Ada")
			if got, want := r.Transcript(), `[wait line line "who? "][line "Ada"]hello Ada `+"\n"; got != want || r.Idle.Turn != 0 || describeOutcome(r) != "ok" {
				t.Errorf("%s: got %q, %s; want %q", name, got, describeOutcome(r), want)
			}
			w.RunCode("who").WantOutput(t, "[1] \"Ada\"\n")
		}
	})

	// A request for a secret is made with the echo off, as askpass does. Lines of the input do not answer
	// it.
	t.Run("input with echo off is a secret", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("f <- function() { system('stty -echo'); on.exit(system('stty echo')); nchar(readline('pw? ')) }")
		if got, want := w.RunCode("f()\n'next'", "s3cret").Transcript(), `[wait secret line "pw? "][line secret][1] 6`+"\n"+`[1] "next"`+"\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := w.RunCode("f()\n'next'", "").Transcript(), `[wait secret line "pw? "][1] 0`+"\n"+`[1] "next"`+"\n"; got != want {
			t.Errorf("end of file: got %q, want %q", got, want)
		}
		if got, want := w.RunCode("readline('n? ')", "Ada").Transcript(), `[wait line line "n? "][line "Ada"][1] "Ada"`+"\n"; got != want {
			t.Errorf("with the echo on again: got %q, want %q", got, want)
		}
	})

	// Without echo, R passes an empty prompt at every read.
	t.Run("works with an R that prints no echo", func(t *testing.T) {
		t.Parallel()
		for name, s := range map[string]workerSetup{"by the code": {}, "by the profile": {rprofile: "options(echo = FALSE)"}, "by the command": {options: r.Options{Path: writeNoEchoR(t)}}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, s)
				w.RunCode("options(echo = FALSE)").WantOutput(t, "")
				w.RunCode("1 + 1").WantOutput(t, "[1] 2\n")
				w.RunCode("getOption('echo')\n(1 +\n2)").WantOutput(t, "[1] FALSE\n[1] 3\n")
				if r := w.RunCode("stop('a')\ncat('b\\n')"); describeOutcome(r) != "error: a, 1 unrun" || r.OutputText() != "Error: a\n" {
					t.Errorf("got %q, %s", r.Transcript(), describeOutcome(r))
				}
				if got := w.RunCode("browser()", "6 * 7", "c").Transcript(); strings.Count(got, "[wait debugger") != 2 || !strings.Contains(got, "[1] 42\n") {
					t.Errorf("browser: got %q", got)
				}
				if got := w.RunCode("plot(1)").Transcript(); got != "[image image/png]" {
					t.Errorf("plot: got %q", got)
				}
			})
		}
	})

	// The function in options(error) does not read the code after the error.
	t.Run("code after an error is not taken as an answer", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("f <- function(x) stop('in f')\noptions(error = recover)")
		r := w.RunCode("f(1)\n1\ncat('NOT RUN\\n')\n# a remark", "1", "x", "Q")
		if got := r.Transcript(); !strings.Contains(got, `[wait line line "Selection: "][line "1"]`) || !strings.Contains(got, `[line "x"][1] 1`) || strings.Contains(got, "NOT RUN") || describeOutcome(r) != "error: in f, 2 unrun" {
			t.Errorf("got %q, %s", got, describeOutcome(r))
		}
		w.RunCode("options(error = NULL)")
		if got := w.RunCode("{try(stop('a')); readline('? ')}\nGrace").Transcript(); !strings.HasSuffix(got, `[line 2 "Grace"][1] "Grace"`+"\n") {
			t.Errorf("after a caught error: got %q", got)
		}
	})

	// A download tells R's console that R is no longer busy, as R itself does before it asks.
	t.Run("distinguishes the kinds of requests after a download", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "some") }))
		t.Cleanup(server.Close)
		fetch := fmt.Sprintf("download.file(%q, tempfile(), quiet = TRUE, method = 'libcurl')", server.URL+"/a")

		t.Run("are readers after a download", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, workerSetup{})
			for _, prompt := range []string{"name? ", "Browse[1]> ", "> "} {
				got := w.RunCode(fmt.Sprintf("{%s; x <- readline(%q)}", fetch, prompt), "Ada").Transcript()
				if want := fmt.Sprintf("[wait line line %q][line \"Ada\"]", prompt); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			got := w.RunCode("{"+fetch+"; menu(c('a', 'b'))}\n", "2").Transcript()
			if want := "\n1: a\n2: b\n\n" + `[wait line line "Selection: "][line "2"][1] 2` + "\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			got = w.RunCode("{"+fetch+"; browser()}", "6 * 7", "c").Transcript()
			if want := "Called from: top level \n" + `[wait debugger line "Browse[1]> "][line "6 * 7"][1] 42` + "\n" + `[wait debugger line "Browse[1]> "][line "c"]`; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})

		t.Run("are not answered by an interrupt after a download", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, workerSetup{})
			w.StartTurn("{" + fetch + "; x <- readline('name? ')}")
			w.WaitInputRequest()
			if r := w.InterruptUntilAcked(1, 1, nil, nil); describeOutcome(r) != "interrupted" || strings.Contains(r.Transcript(), "[line") {
				t.Errorf("got %q, %s", r.Transcript(), describeOutcome(r))
			}
			w.RunCode("exists('x')").WantOutput(t, "[1] FALSE\n")
		})

		t.Run("are secret after a download", func(t *testing.T) {
			t.Parallel()
			w := startWorker(t, workerSetup{})
			got := w.RunCode("{"+fetch+"; system('stty -echo'); x <- readline('Password: '); system('stty echo')}", "hunter2").Transcript()
			if want := `[wait secret line "Password: "][line secret]`; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	})
}

func TestStdinBrowser(t *testing.T) {
	t.Parallel()

	t.Run("marks the input requests of debuggers", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("f <- function(x) {\n  y <- x + 1\n  y * 2\n}\ndebug(f)")
		r := w.RunCode("f(1)", "n", "y", "n", "y", "Q")
		if got := r.Transcript(); strings.Count(got, "[wait debugger line \"Browse[") != 5 || !strings.Contains(got, "[1] 2\n") {
			t.Errorf("debug: got %q", got)
		}
		r = w.RunCode("f(1)\nn\nn\nc\n'after'")
		if got := r.Transcript(); strings.Contains(got, "[wait") || !strings.HasSuffix(got, "[1] 4\n[1] \"after\"\n") {
			t.Errorf("debug fed by the turn: got %q", got)
		}
		w.RunCode("undebug(f)")

		w.RunCode("g <- function(a) stop('in g')\noptions(error = recover)")
		r = w.RunCode("g(5)", "1", "a", "Q")
		if got := r.Transcript(); !strings.Contains(got, `[wait line line "Selection: "][line "1"]`) || !strings.Contains(got, `[line "a"][1] 5`) || !strings.HasPrefix(describeOutcome(r), "error: in g") {
			t.Errorf("recover: got %q, %s", got, describeOutcome(r))
		}
		r = w.RunCode("g(5)", "0")
		if !strings.HasPrefix(describeOutcome(r), "error: in g") {
			t.Errorf("recover left: got %q, %s", r.Transcript(), describeOutcome(r))
		}
		w.RunCode("options(error = NULL)")
		w.RunCode("trace('g', browser, print = FALSE)")
		if r = w.RunCode("try(g(6), silent = TRUE)", "a", "c"); !strings.Contains(r.Transcript(), "[1] 6\n") {
			t.Errorf("trace: got %q", r.Transcript())
		}
		w.RunCode("untrace('g')")
		w.RunCode("options(browserNLdisabled = TRUE)")
		if r = w.RunCode("browser()", "\n", "c"); strings.Count(r.Transcript(), "[wait debugger") != 2 {
			t.Errorf("got %q", r.Transcript())
		}
		w.RunCode("'well'").WantOutput(t, "[1] \"well\"\n")
	})

	// Code that returns to the top level on request is not interrupted.
	t.Run("leaving the browser is not an interrupt", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("f <- function() browser()")
		for _, c := range [][]string{{"browser()", "Q"}, {"f()", " Q # out"}, {"f()", "browser()", "Q"}, {"q('ask')", "c"}} {
			if r := w.RunCode(c[0], c[1:]...); describeOutcome(r) != "ok" {
				t.Errorf("%q: got %q, %s", c, r.Transcript(), describeOutcome(r))
			}
		}
		if r := w.RunCode("browser()\nQ\n'not run'"); describeOutcome(r) != "interrupted, 1 unrun" {
			t.Errorf("with a line after it: got %q, %s", r.Transcript(), describeOutcome(r))
		}
		w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
	})

	t.Run("a prompt that looks like the browser is not a debugger", func(t *testing.T) {
		t.Parallel()
		w := startWithAskFunction(t)
		for _, prompt := range []string{"Please? ", "> ", "+ ", "", "Browse[1]> "} {
			code := fmt.Sprintf("cat('<', ask(%q), '>\\n', sep = '')", prompt)
			if got, want := w.RunCode(code, "Ada").Transcript(), fmt.Sprintf("[wait line line %q][line \"Ada\"]<Ada>\n", prompt); got != want {
				t.Errorf("%q: got %q, want %q", prompt, got, want)
			}
		}
		w.RunCode("browser()", "c")
		w.StartTurn("x <- 'old'; x <- ask('Please? ')")
		w.WaitInputRequest()
		if r := w.InterruptUntilAcked(1, 1, nil, nil); describeOutcome(r) != "interrupted" || strings.Contains(r.Transcript(), "[line") {
			t.Errorf("interrupted: got %q, %s", r.Transcript(), describeOutcome(r))
		}
		w.RunCode("x").WantOutput(t, "[1] \"old\"\n")
	})

	// Code that ends its turn itself is not an interrupt.
	t.Run("a return to the top level without a message is an error", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, c := range []struct{ code, want string }{
			{"tools::pskill(Sys.getpid(), 2); Sys.sleep(60)", "interrupted"},
			{"invokeRestart('abort')", "error: R went back to its top level without a message"},
			{"invokeRestart('abort')\n1", "error: R went back to its top level without a message, 1 unrun"},
			{"local({browser(); 1})\nQ", "ok"},
		} {
			if r := w.RunCode(c.code); describeOutcome(r) != c.want {
				t.Errorf("%q: got %q, %s; want %s", c.code, r.Transcript(), describeOutcome(r), c.want)
			}
		}
		r := w.RunCode("f <- function() stop('in f'); options(error = recover)\nf()", "1", "nowhere", "Q")
		if r.Idle == nil || r.Idle.Error == nil || strings.HasPrefix(r.Idle.Error.Name, "object") {
			t.Errorf("an error within an error: got %q, %+v", r.Transcript(), r.Idle)
		}
	})

	// The browser takes expressions of several lines, as R's top level does.
	t.Run("the browser takes expressions of several lines", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		const first = `[wait debugger line "Browse[1]> "]`
		more := func(line string) string { return fmt.Sprintf(`[wait continue line "+ "][line %q]`, line) }
		for _, c := range []struct {
			name, code string
			answers    []string
			want       string
		}{
			{"one that is not to run", "ok <- FALSE; browser()", []string{"if (ok) {", "cat('RAN\\n')", "}", "c"},
				first + `[line "if (ok) {"]` + more("cat('RAN\\n')") + more("}") + first + `[line "c"]`},
			{"either branch, not both", "browser()", []string{"if (FALSE) {", "'a'", "} else {", "'b'", "}", "c"},
				first + `[line "if (FALSE) {"]` + more("'a'") + more("} else {") + more("'b'") + more("}") + "[1] \"b\"\n" + first + `[line "c"]`},
			{"a function", "browser()", []string{"h <- function(x) {", "\n", "x + 1", "}", "h(1)", "c"},
				first + `[line "h <- function(x) {"]` + more("") + more("x + 1") + more("}") + first + `[line "h(1)"][1] 2` + "\n" + first + `[line "c"]`},
			{"a call", "browser()", []string{"c(1,", "2)", "c"}, first + `[line "c(1,"]` + more("2)") + "[1] 1 2\n" + first + `[line "c"]`},
			{"a letter of the browser's within", "browser()", []string{"c(1,", "c", ")[[1]]", "Q"}, first + `[line "c(1,"]` + more("c") + more(")[[1]]") + "[1] 1\n" + first + `[line "Q"]`},
			{"lines of the input", "browser()\nif (FALSE) {\n'a'\n}\nc\n'on'", nil, `[line 2 "if (FALSE) {"][line 3 "'a'"][line 4 "}"][line 5 "c"][1] "on"` + "\n"},
			{"after that, the top level is as before", "1 +", nil, "<err>Error: unexpected end of input\n</err>"},
		} {
			r := w.RunCode(c.code, c.answers...)
			got := strings.TrimPrefix(r.Transcript(), "Called from: top level \n")
			if got != c.want && !strings.HasPrefix(c.want, "<err>") || !strings.HasPrefix(got, c.want[:5]) {
				t.Errorf("%s: got %q\nwant %q, %s", c.name, got, c.want, describeOutcome(r))
			}
		}

		w.RunCode("f <- function(a) stop('in f')\noptions(error = recover)")
		r := w.RunCode("f(5)", "1", "if (a == 6) {", "cat('RAN\\n')", "}", "Q")
		if got := r.Transcript(); !strings.Contains(got, more("cat('RAN\\n')")+more("}")+first) || strings.Contains(got, "RAN\n") || describeOutcome(r) != "error: in f" {
			t.Errorf("in recover(): got %q, %s", got, describeOutcome(r))
		}
		w.RunCode("options(error = NULL)")

		t.Run("an interrupt drops the lines so far", func(t *testing.T) {
			w.StartTurn("browser()")
			w.AnswerRequest(w.WaitInputRequest(), "if (TRUE) {")
			if wait := w.WaitInputRequest(); wait.Kind != ipc.WaitContinue {
				t.Fatalf("got %+v", wait)
			}
			var again ipc.StdinWait
			w.InterruptUntilAcked(1, 1, nil, func(e any) bool { again, _ = e.(ipc.StdinWait); return again.Wait > 0 })
			if again.Kind != ipc.WaitDebugger {
				t.Fatalf("got %+v", again)
			}
			w.AnswerRequest(again, "cat('on\\n')")
			w.AnswerRequest(w.WaitInputRequest(), "Q")
			if r := w.FinishTurn(); describeOutcome(r) != "interrupted" {
				t.Errorf("got %q, %s", r.Transcript(), describeOutcome(r))
			}
			w.RunCode("1").WantOutput(t, "[1] 1\n")
		})
	})
}

// startWithAskFunction returns a worker with a function ask(prompt), which reads as reticulate does: by
// ReadConsole, with history.
func startWithAskFunction(t *testing.T) *worker {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler is installed")
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "ask.c"), `extern int R_ReadConsole(const char *, unsigned char *, int, int);
void ask(char **prompt, char **got) {
	static unsigned char line[512];
	if (R_ReadConsole(*prompt, line, sizeof line, 1) == 0) line[0] = 0;
	*got = (char *)line;
}`)
	library := filepath.Join(dir, "ask.so")
	cc := exec.Command("cc", append(slices.Clone(allowUndefined), "-shared", "-fPIC", "-o", library, filepath.Join(dir, "ask.c"))...)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w := startWorker(t, workerSetup{})
	w.RunCode(fmt.Sprintf("dyn.load(%q); ask <- function(p) trimws(.C('ask', p, got = '')$got)", library))
	return w
}

// writeNoEchoR returns an R that does not echo its input.
func writeNoEchoR(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "R")
	writeFile(t, path, "#!/bin/sh\nexec R --no-echo \"$@\"\n")
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
