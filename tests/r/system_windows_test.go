package r_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// killedReason is the exit reason of a killed worker, as Windows and Go phrase it.
const killedReason = "exit status 1"

// Wine ignores the code page that R requests.
var systemEnv = []string{"LC_CTYPE=en_US.UTF-8"}

var systemInputCases = []inputCase{
	{"menu", "menu(c('a', 'b'))", []string{"2"}, "\n1: a\n2: b\n\n" + `[wait "Selection: "][line "2"][1] 2` + "\n"},
	{"q that asks", "q('ask')", []string{"c"}, `[wait "Save workspace image? [y/n/c]: "][line "c"]`},
	{"file.choose", "file.choose()", []string{"a b.csv"}, `[wait "Enter file name: "][line "a b.csv"][1] "a b.csv"` + "\n"},
	{"choose.files", "choose.files()", []string{"a", "b", ""}, `[wait "Select files, one at a time (empty: no more): "][line "a"]` +
		`[wait "Select files, one at a time (empty: no more): "][line "b"][wait "Select files, one at a time (empty: no more): "][line ""][1] "a" "b"` + "\n"},
	{"choose.dir", "utils::choose.dir()", []string{""}, `[wait "Select folder: "][line ""][1] NA` + "\n"},
	{"winDialog", "winDialog('yesno', 'Go?')", []string{"y"}, `[wait "Go? [yes/no]: "][line "y"][1] "YES"` + "\n"},
	{"winDialog without a choice", "utils::winDialog('ok', 'Done.')", nil, "Done.\n"},
	{"winDialogString", "winDialogString('Name?', 'Ada')", []string{""}, `[wait "Name? [Ada]: "][line ""][1] "Ada"` + "\n"},
	{"a list in a window", "select.list(c('a', 'b'), graphics = TRUE)", []string{"2"}, "\n1: a\n2: b\n\n" + `[wait "Selection: "][line "2"][1] "b"` + "\n"},
	{"a menu in a window", "menu(c('a', 'b'), graphics = TRUE)", []string{"1"}, "\n1: a\n2: b\n\n" + `[wait "Selection: "][line "1"][1] 1` + "\n"},
}

var systemInterrupts = map[string]string{
	"a child":        "cat('up\\n'); system('ping -n 100 127.0.0.1', show.output.on.console = FALSE)",
	"R, a child":     "cat('up\\n'); system(paste(shQuote(file.path(R.home('bin'), 'Rterm.exe')), '--vanilla --no-echo -e Sys.sleep(60)'))",
	"linear algebra": "m <- matrix(runif(2500), 50); cat('up\\n'); repeat m %*% m", // R checks once in 1000 evaluations, and its BLAS is slow
	"a cluster":      "cl <- parallel::makeCluster(1); cat('up\\n'); parallel::clusterApply(cl, 1, function(i) Sys.sleep(100))",
}

// allowedResults lists other valid results of an interrupt within its second.
var allowedResults = map[string]session.InterruptResult{
	// R waits five seconds before it kills a child that does not end.
	"a child":    session.InterruptPending,
	"R, a child": session.InterruptPending,
}

var systemEndCases = []endCase{
	{"killed by itself", "cat('last\\n'); flush(stdout()); tools::pskill(Sys.getpid(), 9)", "exit status 1", "last\n", false},
}

var systemSoakTurns = []string{"invisible(system('cmd /c echo child'))", "winDialog('yesno', '?')"}

// consoleEscapes matches the control sequences with which the console redraws a child's output.
var consoleEscapes = strings.NewReplacer("\x1b[?25l", "", "\x1b[?25h", "", "\r", "")

func TestWindows(t *testing.T) {
	t.Run("turns work as on Unix", func(t *testing.T) {
		s := openSession(t, r.Options{})
		for _, c := range []struct{ name, code, want string }{
			{"a value", "6 * 7", "[1] 42\n"},
			{"not ASCII", "x <- '日本語 é'; x; nchar(x); cat('\\U1F600\\n')", "[1] \"日本語 é\"\n[1] 5\n😀\n"},
			{"a long line", "nchar('" + strings.Repeat("é", 6000) + "')", "[1] 6000\n"},
			{"CR LF", "1 +\r\n1\r\n", "[1] 2\n"},
			{"standard error", "cat('a'); message('b'); cat('c')", "a<err>b\n</err>c"},
			{"a warning", "warning('w')", "<err>Warning message:\nw \n"},
			{"no echo", "options(echo = FALSE)\n1\noptions(echo = TRUE)", "[1] 1\n"},
			{"much text", "cat(strrep('x', 2e5), '\\n')", strings.Repeat("x", 200000) + " \n"},
			{"a child", "invisible(system('cmd /c echo B'))", "B\n"},
			// A console shows a child's text up to 16 ms late: docs/troubleshooting.md.
			{"a child between", "cat('A\\n'); invisible(system('cmd /c echo B')); Sys.sleep(0.5); cat('C\\n')", "A\nB\nC\n"},
			{"text of a child", "system('cmd /c echo B', intern = TRUE)", "[1] \"B\"\n"},
			{"shell", "shell('echo B')", "B\n"},
			{"a cluster", "cl <- parallel::makeCluster(1); parallel::clusterApply(cl, 1, function(i) i + 1)[[1]]; parallel::stopCluster(cl)", "[1] 2\n"},
			{"plots", "plot(1:10); cat('x\\n'); plot(10:1)", "[image]x\n[image]"},
			{"grid", "grid::grid.newpage(); grid::grid.rect()", "[image]"},
			{"windows()", "windows(4, 3); plot(1); invisible(dev.off())", "[image]"},
			{"a file that is shown", "writeLines(c('_\\ba', 'b'), f <- tempfile()); file.show(f)", "a\nb\n\n"},
			{"a file that is opened", "shell.exec('a.pdf')", "<err>[not opened: a.pdf: a session cannot open programs on the desktop]\n"},
			{"a bar", "p <- winProgressBar('Work', max = 2); setWinProgressBar(p, 2); getWinProgressBar(p); close(p)", ""},
			{"deep recursion", "f <- function(n) f(n + 1); class(try(f(1), silent = TRUE))", "[1] \"try-error\"\n"},
			{"the C stack", "options(expressions = 500000); tryCatch(f(1), error = function(e) 'caught'); options(expressions = 5000)", "[1] \"caught\"\n"},
			{"the environment", "Sys.getenv(c('REPL_IPC', 'TURNSTONE_R', 'R_TESTS', 'R_PROFILE', 'TURNSTONE_TMPDIR', 'TMPDIR'), names = FALSE)", "[1] \"\" \"\" \"\" \"\" \"\" \"\"\n"},
			{"a child's environment", "invisible(system('cmd /c if defined REPL_IPC (echo there) else if defined TURNSTONE_R (echo there) else echo gone'))", "gone\n"},
			{"what kind of R", "interactive(); .Platform$GUI; dir.exists(tempdir())", "[1] TRUE\n[1] \"RTerm\"\n[1] TRUE\n"},
		} {
			t.Run(c.name, func(t *testing.T) {
				res := s.RunCode(t, c.code)
				got := consoleEscapes.Replace(res.Transcript())
				if c.want == "" && strings.Contains(got, "100%") {
					got = ""
				}
				if got != c.want || res.Outcome != "ok" {
					t.Errorf("got %.2000q, %s; want %.2000q", got, res.Outcome, c.want)
				}
				if res.Outcome == "" {
					s.RestartWorker(t)
				}
				wantCleanTurn(t, s)
			})
		}
	})

	t.Run("prints help as text and rejects editors", func(t *testing.T) {
		s := openSession(t, r.Options{})
		if res := s.RunCode(t, "?mean"); res.Outcome != "ok" || !strings.Contains(res.OutputText(), "Arithmetic Mean") || strings.Contains(res.OutputText(), "\b") {
			t.Errorf("got %.500q, %s", res.Transcript(), res.Outcome)
		}
		if res := s.RunCode(t, "View(cars)"); res.Outcome != "ok" || !strings.Contains(res.OutputText(), "50 rows, 2 columns") {
			t.Errorf("got %.500q, %s", res.Transcript(), res.Outcome)
		}
		if res := s.RunCode(t, "edit(1)"); res.Outcome != "error" || !strings.Contains(res.OutputText(), "a session has no editor") {
			t.Errorf("got %.500q, %s", res.Transcript(), res.Outcome)
		}
		if res := s.RunCode(t, "stop('e')\n'not run'"); res.Outcome != "error" || strings.Contains(res.OutputText(), "not run\"") {
			t.Errorf("got %.500q, %s", res.Transcript(), res.Outcome)
		}
		if res := s.RunCode(t, "debug(g <- function(x) x + 1); g(1)", "n", "c"); res.Outcome != "ok" && res.Outcome != "error" {
			t.Errorf("got %.500q, %s", res.Transcript(), res.Outcome)
		}
		wantCleanTurn(t, s)
	})

	t.Run("resets a busy worker", func(t *testing.T) {
		s := openSession(t, r.Options{})
		s.StartTurn(t, "cat('up\\n'); system('ping -n 100 127.0.0.1', show.output.on.console = FALSE)")
		s.WaitEvent(t, "up", sessionkit.IsText("up"))
		s.RestartWorker(t)
		s.RunCode(t, "1").WantTranscript(t, "[1] 1\n")
	})
}
