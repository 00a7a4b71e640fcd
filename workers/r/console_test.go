//go:build linux || darwin

package r_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestTurn(t *testing.T) {
	t.Parallel()

	t.Run("prints what R prints", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, c := range []struct{ code, script, outcome string }{
			{"1+1", "[1] 2\n", "ok"},
			{"x <- 5", "", "ok"},
			{"x\nx * 2", "[1] 5\n[1] 10\n", "ok"},
			{"invisible(3)", "", "ok"},
			{"NULL", "NULL\n", "ok"},
			{"", "", "ok"},
			{"# nothing", "", "ok"},
			{"\n\n  \n", "", "ok"},
			{"f <- function(a) {\n  a + 1\n}\nf(1)", "[1] 2\n", "ok"},
			{"if (TRUE) 'a'\n{\n'b'\n}", "[1] \"a\"\n[1] \"b\"\n", "ok"},
			{".Last.value", "[1] \"b\"\n", "ok"},
			{"sys.nframe()", "[1] 0\n", "ok"},
			{"environmentName(environment())", "[1] \"R_GlobalEnv\"\n", "ok"},
			{"interactive()", "[1] TRUE\n", "ok"},
			{"commandArgs(TRUE)", "character(0)\n", "ok"},
			{"ls(); rm(x, f)", "[1] \"f\" \"x\"\n", "ok"},
			{"ls(all.names = TRUE)", "character(0)\n", "ok"},
			{"cat('no newline')", "no newline", "ok"},
			{"cat('a\\r\\n\\tb\\n')", "a\r\n\tb\n", "ok"},
			{"'é ü 日本 😀'", "[1] \"é ü 日本 😀\"\n", "ok"},
			{"cat('a\n\n# no comment\nb\n')", "a\n\n# no comment\nb\n", "ok"},
			{"print(1); cat('x\\n', file = stderr()); print(2)", "[1] 1\n<err>x\n</err>[1] 2\n", "ok"},
			{"message('m'); write('w', stdout())", "<err>m\n</err>w\n", "ok"},
			{"stop('boom')", "<err>Error: boom\n", "error: boom"},
			{"f <- function(x) stop('no ', x)\nf('way')", "<err>Error in f(\"way\") : no way\n", "error: no way"},
			{"1\nstop('boom')\n2\n\n# c\n3", "[1] 1\n<err>Error: boom\n", "error: boom, 2 unrun"},
			{"nothing_there", "<err>Error: object 'nothing_there' not found\n", "error: object 'nothing_there' not found"},
			{"as.integer('x')", "[1] NA\n<err>Warning message:\nNAs introduced by coercion \n", "ok"},
			{"f <- function() { warning('late'); cat('first\\n') }; f(); 1", "first\n<err>Warning message:\nIn f() : late\n</err>[1] 1\n", "ok"},
			{"x <- = 1\n1", "<err>Error: unexpected '=' in \"x <- =\"\n", "error: unexpected '=' in \"x <- =\", 1 unrun"},
			{"1)", "<err>Error: unexpected ')' in \"1)\"\n", "error: unexpected ')'"},
			{"try(stop('caught')); 'on'", "<err>Error in try(stop(\"caught\")) : caught\n</err>[1] \"on\"\n", "ok"},
			{"tryCatch(stop('x'), error = function(e) conditionMessage(e))", "[1] \"x\"\n", "ok"},
			{"try(log(-1), silent = TRUE); geterrmessage() != ''", "[1] NaN\n<err>Warning message:\nIn log(-1) : NaNs produced\n</err>[1] TRUE\n", "ok"},
			{"capture.output(print(1), type = 'output')", "[1] \"[1] 1\"\n", "ok"},
			{"sink(f <- tempfile()); print(1); sink(); readLines(f)", "[1] \"[1] 1\"\n", "ok"},
			{"invokeRestart('abort')\n1", "", "error: R went back to its top level without a message, 1 unrun"},
		} {
			r := w.RunCode(c.code)
			script := strings.TrimSuffix(r.Transcript(), "</err>")
			if got := describeOutcome(r); script != c.script || !strings.HasPrefix(got, c.outcome) {
				t.Errorf("%q: got %q, %s\nwant %q, %s", c.code, r.Transcript(), got, c.script, c.outcome)
			}
			if r.Idle.Prompt != "> " {
				t.Errorf("%q: the prompt is %q", c.code, r.Idle.Prompt)
			}
		}
	})

	// A second error with the same message counts, too. An error that a handler caught does not count.
	t.Run("reports the outcome of this turn only", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, c := range []struct{ code, outcome string }{
			{"stop('same')", "error: same"},
			{"stop('same')", "error: same"},
			{"1", "ok"},
			{"try(stop('same'), silent = TRUE)", "ok"},
			{"stop('same')", "error: same"},
			{"stop('')", "error: "},
			{"stop('')", "error: "},
			{"stop(paste(rep('long', 5000), collapse = ' '))", "error: long long"},
			{"rlang::abort('structured')", "error"},
			{"stop(structure(class = c('mine', 'error', 'condition'), list(message = 'of a class', call = NULL)))", "error: of a class"},
			{"options(show.error.messages = FALSE)\nstop('quiet')", "error: quiet"},
			{"options(show.error.messages = TRUE)", "ok"},
			{"options(error = quote(cat('my handler\\n')))\nstop('handled')", "error: handled"},
			{"options(error = quote(stop('as well')))\nstop('first')\n2", "error: as well, 1 unrun"},
			{"1; try(stop('first')); invisible(removeTaskCallback('turnstone'))", "ok"},
			{"options(error = NULL)", "ok"},
			{"options(warn = 2)\nas.integer('x')", "error: (converted from warning) NAs introduced by coercion"},
			{"options(warn = 0)", "ok"},
			{"options(warn = 1)\nas.integer('x'); cat('after\\n')", "ok"},
			{"f <- function(n) f(n + 1); f(1)", "error: "},
			{"1", "ok"},
		} {
			r := w.RunCode(c.code)
			if got := describeOutcome(r); !strings.HasPrefix(got, c.outcome) || c.outcome == "ok" && got != "ok" {
				t.Errorf("%q: got %s %.300q, want %s", c.code, got, r.Transcript(), c.outcome)
			}
		}
		if r := w.RunCode("options(error = quote(cat('my handler\\n')))\nstop('handled')"); !strings.Contains(r.OutputText(), "my handler\n") {
			t.Errorf("options(error=) did not run: %q", r.Transcript())
		}
	})

	t.Run("traceback and warnings work", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("f <- function(x) g(x)\ng <- function(x) stop('deep')")
		w.RunCode("f(1)")
		w.RunCode("traceback()").WantOutput(t, "3: stop(\"deep\") at #1\n2: g(x) at #1\n1: f(1)\n")
		w.RunCode("h <- function() { warning('w1'); warning('w2') }\nh()")
		if r := w.RunCode("warnings()"); !strings.Contains(r.OutputText(), "w1") || !strings.Contains(r.OutputText(), "w2") {
			t.Errorf("got %q", r.Transcript())
		}
	})

	t.Run("continues after an error if KeepGoing is set", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{options: r.Options{KeepGoing: true}})
		r := w.RunCode("1\nstop('boom')\n2")
		if got, want := r.Transcript(), "[1] 1\n<err>Error: boom\n</err>[1] 2\n"; got != want || describeOutcome(r) != "error: boom" {
			t.Errorf("got %q, %s; want %q and the error", got, describeOutcome(r), want)
		}
		w.StartTurn("cat('up\\n'); Sys.sleep(100)\n2\n3")
		w.WaitOutput("up")
		if r := w.InterruptUntilAcked(1, 1, nil, nil); describeOutcome(r) != "interrupted, 2 unrun" {
			t.Errorf("got %q, %s", r.Transcript(), describeOutcome(r))
		}
	})

	// At the end of the turn, R sees the end of its input after incomplete code.
	t.Run("incomplete input is an error of R", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, code := range []string{"1 +", "f(", "{\n1", "function(x)", "'text", "if (TRUE) {\n1\n", "x <- c(1,\n2,\n", "r\"(raw", "a %in%", "\n\n1 +\n\n"} {
			r := w.RunCode(code)
			if r.Idle == nil || r.Idle.Outcome != ipc.OutcomeError || !strings.Contains(r.ErrText(), "unexpected ") {
				t.Errorf("%q: got %q, %s", code, r.Transcript(), describeOutcome(r))
			}
			w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
		}
		r := w.RunCode("cat('ran\\n')\n1 +")
		if r.Transcript() != "ran\n<err>Error: unexpected end of input\n</err>" && !strings.HasPrefix(r.Transcript(), "ran\n<err>Error") {
			t.Errorf("got %q", r.Transcript())
		}
		if r.Idle.Error == nil || !strings.Contains(r.Idle.Error.Message, "unexpected end of input") {
			t.Errorf("got %+v", r.Idle)
		}
	})

	t.Run("reports the prompt that options set", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		if r := w.RunCode("options(prompt = 'R! ')"); r.Idle.Prompt != "R! " || r.Idle.Continuation != "" {
			t.Errorf("got %q, and %q for further lines", r.Idle.Prompt, r.Idle.Continuation)
		}
		for _, more := range []string{"é. ", "+ "} {
			want := strings.TrimPrefix(more, "+ ")
			if r := w.RunCode("options(continue = '" + more + "')"); r.Idle.Continuation != want {
				t.Errorf("got %q for further lines, want %q", r.Idle.Continuation, want)
			}
		}
		for _, both := range []string{"same> ", "> ", "Browse[1]> "} {
			w.RunCode("options(prompt = '" + both + "', continue = '" + both + "')")
			for _, c := range []struct{ code, script, outcome string }{
				{"1+1", "[1] 2\n", "ok"},
				{"{\n1\n}\n2", "[1] 1\n[1] 2\n", "ok"},
				{"# c\n\n3", "[1] 3\n", "ok"},
				{"", "", "ok"},
				{"x <- 1", "", "ok"},
				{"f <- function() {\n\n# c\n4 }\n\nf()", "[1] 4\n", "ok"},
				{"stop('e')\n1", "<err>Error: e\n</err>", "error: e, 1 unrun"},
				{"x <- = 2", "", "error"},
				{"1 +", "", "error"},
				{"5", "[1] 5\n", "ok"},
				{"z <- readline('? ')\nfed\nz", "[line 2 \"fed\"][1] \"fed\"\n", "ok"},
			} {
				r := w.RunCode(c.code)
				script := strings.ReplaceAll(r.Transcript(), "? ", "")
				if got := describeOutcome(r); c.outcome != "error" && script != c.script || !strings.HasPrefix(got, c.outcome) {
					t.Errorf("prompts %q, %q: got %q, %s; want %q, %s", both, c.code, r.Transcript(), got, c.script, c.outcome)
				}
				if r.Idle.Prompt != both {
					t.Errorf("the prompt is %q, want %q", r.Idle.Prompt, both)
				}
			}
		}
	})
}

// A line longer than R's buffer arrives in pieces, which end between characters.
func TestLongLine(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{})
	for _, char := range []string{"\u304a", "é", "\U0001f600", "z"} {
		for _, before := range []string{"", "a", "ab", "abc"} {
			for _, code := range []string{"x <- c(1,\n'%s'\n)[2]; nchar(x)", "x <- '%s'; nchar(x)", "x <- '\n%s'; nchar(x) - 1", "{\n'%[1]s' -> x; nchar('%[1]s') }"} {
				long := before + strings.Repeat(char, 3000)
				r := w.RunCode(fmt.Sprintf(code, long))
				if want := fmt.Sprintf("[1] %d\n", 3000+len(before)); r.OutputText() != want {
					t.Errorf("%s of %q after %q: got %.200q, want %q", code, char, before, r.Transcript(), want)
				}
				w.RunCode(fmt.Sprintf("gsub('\\n', '', x) == paste0('%s', strrep('%s', 3000))", before, char)).WantOutput(t, "[1] TRUE\n")
			}
		}
	}
}

// An error counts even if nothing shows it and it has the same message as the previous one.
func TestRepeatedError(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{})
	w.RunCode("f <- function() stop('in f'); g <- function() nothing_there; con <- file(tempfile(), 'w'); sink(con, type = 'message')")
	for _, c := range []struct{ code, want string }{
		{"stop('one')", "error: one"}, {"stop('one')", "error: one"}, {"stop('one')", "error: one"},
		{"f()", "error: in f"}, {"f()", "error: in f"},
		{"g()", "error: object 'nothing_there' not found"}, {"g()", "error: object 'nothing_there' not found"},
		{"try(f(), silent = TRUE)", "ok"}, {"f()", "error: in f"}, {"f()", "error: in f"},
		{"invokeRestart('abort')", "error: R went back to its top level without a message"},
		{"sink(type = 'message'); invisible(traceback(3))", "ok"},
		{"tools::pskill(Sys.getpid(), 2); Sys.sleep(60)", "interrupted"},
		{"tools::pskill(Sys.getpid(), 2); Sys.sleep(60)", "interrupted"},
		{"options(show.error.messages = FALSE)\nf()", "error: in f"}, {"f()", "error: in f"}, {"f()", "error: in f"},
		{"invokeRestart('abort')", "error: R went back to its top level without a message"},
	} {
		if r := w.RunCode(c.code); describeOutcome(r) != c.want {
			t.Errorf("%q: got %s %q, want %s", c.code, describeOutcome(r), r.Transcript(), c.want)
		}
	}
	w.RunCode("options(show.error.messages = TRUE)")
	w.RunCode("f()")
	w.RunCode("1")
	w.RunCode("traceback()").WantOutput(t, "2: stop(\"in f\") at #1\n1: f()\n")
}

func TestErrorMessage(t *testing.T) {
	t.Parallel()

	// The message of an error starts after its call, even if the call has colons.
	t.Run("begins after the call", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{noPackages: true})
		w.RunCode("f <- function(...) stop('no such thing'); `a : b` <- f; raise <- function(text) stop(simpleError(text))")
		for code, want := range map[string]string{
			"f(1)":                         "no such thing",
			`f("x : y")`:                   "no such thing",
			`f("x\" : y", 'z : ')`:         "no such thing",
			"`a : b`(1)":                   "no such thing",
			`f("Error: no")`:               "no such thing",
			"1:2 + letters":                "non-numeric argument to binary operator",
			"raise('\\n! bad : is: this')": "! bad : is: this", // as of rlang
			"stop('a : b: c')":             "a : b: c",
			"f(" + strings.Repeat("'long : argument', ", 9) + "1)": "no such thing",
		} {
			if got := describeOutcome(w.RunCode(code)); got != "error: "+want {
				t.Errorf("%s: got %q, want %q", code, got, "error: "+want)
			}
		}
	})

	// rlang, and so all of the tidyverse, prints an error itself. It then raises one without the message,
	// or with a part of it.
	t.Run("is the message of the condition", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode(`abort <- function(...) {
  condition <- structure(class = c('rlang_error', 'error', 'condition'), list(message = paste0(...), call = NULL))
  signalCondition(condition)
  cat('Error:\n!', condition$message, '\n')
  old <- options(show.error.messages = FALSE)
  on.exit(options(old))
  stop(structure(class = c('rlang_error', 'condition'), list(message = '', call = NULL)))
}
conditionMessage.built <- function(c) 'built'; built <- structure(class = c('built', 'error', 'condition'), list(message = '', call = quote(f())))
quiet <- function(code) { old <- options(show.error.messages = FALSE); on.exit(options(old)); code }`)
		for _, c := range []struct{ name, code, want string }{
			{"that a library prints", "abort('bad : thing\\nand more')", "error: bad : thing\nand more"},
			{"that a library prints, again", "abort('bad : thing\\nand more')", "error: bad : thing\nand more"},
			{"after an error that was caught", "try(stop('caught'), silent = TRUE); tryCatch(abort('caught'), error = identity); quiet(stop('own'))", "error: own"},
			{"after an error that a library printed, where R prints it", "try(abort('first'), silent = TRUE)\nstop('second')", "error: second"},
			{"without its colours", "abort('\\033[1mbold\\033[22m and \\033[38;5;9mred\\033[39m')", "error: bold and red"},
			{"that its class makes", "stop(built)", "error: built"},
			{"that is hidden", "quiet(stop('hidden'))", "error: hidden"},
			{"of an error with a user's global handler", "globalCallingHandlers(error = function(e) cat('seen\\n')); abort('mine')", "error: mine"},
			{"not of an earlier error", "invokeRestart('abort')", "error: R went back to its top level without a message"},
			{"of R, without handlers", "globalCallingHandlers(NULL); stop('plain')", "error: plain"},
		} {
			if got := describeOutcome(w.RunCode(c.code)); got != c.want {
				t.Errorf("%s: got %q, want %q", c.name, got, c.want)
			}
		}
		w.RunCode("1 + 1").WantOutput(t, "[1] 2\n")
	})
}
