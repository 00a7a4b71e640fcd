//go:build linux || darwin

package r_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/ipc"
)

// compileNative compiles C code, and returns the R statement that loads it.
func compileNative(t testing.TB, source string) string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("cc is not installed: install it with apt-get install gcc")
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "native.c"), source)
	shared := filepath.Join(dir, "native.so")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", shared, filepath.Join(dir, "native.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return "dyn.load('" + shared + "')"
}

func TestOutputOrder(t *testing.T) {
	t.Parallel()

	t.Run("keeps the order of all writers", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode(compileNative(t, `
#include <stdio.h>
#include <unistd.h>
void say(char **what) { printf("%s", *what); }
void complain(char **what) { fprintf(stderr, "%s", *what); }
void bare(void) { write(1, "bare\n", 5); }
`))
		bulk := strings.Repeat("z", 100_000)
		w.RunCode("z <- strrep('z', 100000); say <- function(x) invisible(.C('say', x)); library(parallel)")
		for _, c := range []struct {
			name, code, want string
			rounds           int
		}{
			{"system", "cat('A\\n'); system('echo B'); cat('C\\n')", "A\nB\nC\n", 100},
			{"a line that goes on", "cat('A'); system('printf B'); cat('C\\n')", "ABC\n", 100},
			{"system2", "cat('A\\n'); system2('sh', c('-c', shQuote('echo B; echo C >&2'))); cat('D\\n')", "A\nB\nC\nD\n", 100},
			{"message", "cat('A\\n'); message('B'); cat('C\\n'); system('echo D'); message('E'); cat('F\\n')", "A\n<err>B\n</err>C\nD\n<err>E\n</err>F\n", 200},
			{"partial lines and errors", "cat('A'); cat('B', file = stderr()); cat('C'); message('D', appendLF = FALSE); cat('E\\n')", "A<err>B</err>C<err>D</err>E\n", 200},
			{"a pipe", "p <- pipe('cat', 'w'); cat('A\\n'); writeLines('B', p); close(p); cat('C\\n')", "A\nB\nC\n", 50},
			{"C", "cat('A\\n'); say('B\\n'); cat('C'); say('D'); cat('E\\n'); say('no newline')", "A\nB\nCDE\nno newline", 200},
			{"C's standard error", "cat('A\\n'); invisible(.C('complain', 'B\\n')); cat('C\\n')", "A\nB\nC\n", 100},
			{"lines and write()", "cat('A\\n'); invisible(.C('bare')); cat('C\\n')", "A\nbare\nC\n", 100},
			{"mclapply", "cat('A\\n'); x <- mclapply(1:2, function(i) if (i == 1) { cat('B\\n'); print(1) }); cat('C\\n')", "A\nB\n[1] 1\nC\n", 20},
			{"children of a fork", "cat('A'); x <- mclapply(1:2, function(i) if (i == 1) system('echo B')); cat('C\\n')", "AB\nC\n", 20},
			{"bulk", "system('echo A'); cat(z, '\\n', sep = ''); system('echo B'); cat('C\\n')", "A\n" + bulk + "\nB\nC\n", 20},
			{"an error", "cat('A'); try(stop('B')); system('echo C')", "A<err>Error in try(stop(\"B\")) : B\n</err>C\n", 50},
			{"print and stdout()", "print(1); writeLines('A', stdout()); system('echo B'); write('C', stderr()); print('D')", "[1] 1\nA\nB\n<err>C\n</err>[1] \"D\"\n", 100},
			{"a question", "cat('A'); x <- readline('? ')\nanswer\nsystem('echo B')", "A[line 2 \"answer\"]B\n", 100},
		} {
			t.Run(c.name, func(t *testing.T) {
				for i := range c.rounds {
					if r := w.RunCode(c.code); r.Transcript() != c.want || describeOutcome(r) != "ok" {
						t.Fatalf("round %d: got %.500q, %s; want %.500q", i, r.Transcript(), describeOutcome(r), c.want)
					}
				}
			})
		}
	})

	t.Run("keeps the order over many rounds in one turn", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		r := w.RunCode("for (i in 1:1000) { cat('A', i, '\\n'); system('echo B'); cat('C\\n'); if (i %% 100 == 0) message(i) }")
		lines := strings.Split(strings.TrimSuffix(r.OutputText(), "\n"), "\n")
		n := 0
		for i := 1; i <= 1000; i++ {
			want := []string{"A " + strconv.Itoa(i) + " ", "B", "C"}
			if i%100 == 0 {
				want = append(want, strconv.Itoa(i))
			}
			for _, x := range want {
				if n >= len(lines) || lines[n] != x {
					t.Fatalf("line %d: got %q, want %q", n, lines[min(n, len(lines)-1)], x)
				}
				n++
			}
		}
	})
}

func TestOutput(t *testing.T) {
	t.Parallel()

	t.Run("leaves bytes unchanged", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, c := range []struct{ code, want string }{
			{"cat('a\\xff\\xfeb\\n')", "a\xff\xfeb\n"},
			{"cat('\\x1b[31mred\\x1b[0m\\n')", "\x1b[31mred\x1b[0m\n"},
			{"cat('\\a\\b\\f\\v\\r\\n')", "\a\b\f\v\r\n"},
			{"writeBin(as.raw(1:255), stdout())", ""}, // R refuses: not a binary connection
			{"cat(rawToChar(as.raw(c(1:255)[-10])))", allBytes()},
			{"system('printf \"\\\\377\\\\000\\\\001\"')", "\xff\x00\x01"},
			{"message('m\\xff')", "m\xff\n"},
			{"cat('\\x1b_0123456789abcde;O\\x1b\\\\')", "\x1b_0123456789abcde;O\x1b\\"}, // nearly a marker
			{"cat('half \\xf0\\x9f'); cat('\\x98\\x80\\n')", "half 😀\n"},
			{"cat(sprintf('%5d', 1:3), sep = '\\r\\n')", "    1\r\n    2\r\n    3\n"},
		} {
			r := w.RunCode(c.code)
			if got := r.OutputText(); c.want != "" && got != c.want {
				t.Errorf("%s: got %q, want %q", c.code, got, c.want)
			}
		}
	})

	t.Run("shows an unfinished line while the turn runs", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, code := range []string{
			"cat('working...'); Sys.sleep(100)",
			"cat('working...'); repeat {}",
			"for (i in 1:3) { cat('.'); Sys.sleep(0.01) }; cat('working...'); repeat {}",
		} {
			w.StartTurn(code)
			w.WaitOutput("working...")
			w.InterruptUntilAcked(1, 1, nil, nil)
		}
	})

	t.Run("large output arrives complete", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		r := w.RunCode("x <- strrep('x', 2e7); cat(x)")
		if n := len(r.OutputText()); n != 20_000_000 || describeOutcome(r) != "ok" {
			t.Errorf("cat of 20 MB: got %d bytes, %s", n, describeOutcome(r))
		}
		r = w.RunCode("for (i in 1:20000) cat('line', i, '\\n')")
		if n := strings.Count(r.OutputText(), "\n"); n != 20_000 {
			t.Errorf("got %d lines", n)
		}
		r = w.RunCode("options(max.print = 1e6); print(rnorm(1e5))")
		if n := len(strings.Fields(r.OutputText())); n < 100_000 || describeOutcome(r) != "ok" {
			t.Errorf("print of 1e5 numbers: got %d words, %s", n, describeOutcome(r))
		}
		r = w.RunCode("for (i in 1:20000) message('line ', i)")
		if n := strings.Count(r.ErrText(), "\n"); n != 20_000 {
			t.Errorf("got %d lines of standard error", n)
		}
	})

	t.Run("output of a surviving fork comes between turns", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		over := filepath.Join(t.TempDir(), "over")
		r := w.RunCode(fmt.Sprintf("library(parallel); p <- mcparallel({ while (!file.exists(%q)) Sys.sleep(0.01); cat('late\\n'); 5 })", over))
		if r.OutputText() != "" {
			t.Fatalf("got %q", r.Transcript())
		}
		if err := os.WriteFile(over, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if e, ok := w.NextEvent().(rawworker.MergedText); !ok || e.Data != "late\n" {
			t.Fatalf("got %+v", e)
		}
		w.RunCode("mccollect(p)[[1]]").WantOutput(t, "[1] 5\n")
	})
}

func allBytes() string {
	var b []byte
	for i := 1; i < 256; i++ {
		if i != 10 {
			b = append(b, byte(i))
		}
	}
	return string(b)
}

func TestOutputMemory(t *testing.T) {
	w := startWorker(t, workerSetup{})
	w.RunCode("x <- strrep('x', 1e6)\nrss <- function() if (file.exists('/proc/self/status')) as.numeric(gsub('[^0-9]', '', grep('VmRSS', readLines('/proc/self/status'), value = TRUE))) else 0")
	w.RunCode("cat(x, '\\n'); before <- rss()")
	w.RunCode("for (i in 1:100) cat(x, '\\n')")
	w.RunCode("rss() - before < 20000").WantOutput(t, "[1] TRUE\n") // KB
}

func TestEnvironment(t *testing.T) {
	t.Parallel()

	t.Run("children see no variables of the worker", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("Sys.getenv(c('REPL_IPC', 'R_TESTS', 'TURNSTONE_R', 'TURNSTONE_R_PROFILE', 'TURNSTONE_R_TESTS'), NA, names = FALSE)").WantOutput(t, "[1] NA NA NA NA NA\n")
		if r := w.RunCode("system('env | grep -E \"^(REPL_IPC|R_TESTS|TURNSTONE)\"')"); r.OutputText() != "" {
			t.Errorf("a child sees %q", r.OutputText())
		}
		r := w.RunCode("system2(file.path(R.home('bin'), 'Rscript'), c('-e', shQuote('cat(commandArgs()[-1], is.loaded(paste0(\"turn\", \"stone_start\")), nchar(Sys.getenv(\"R_PROFILE\")), \"\\n\")')))")
		if !strings.Contains(r.OutputText(), "FALSE") || strings.Contains(r.OutputText(), "turnstone") {
			t.Errorf("a child R: got %q", r.Transcript())
		}
		// An R process that a package starts as its worker, as callr and parallel do.
		r = w.RunCode("cl <- parallel::makeCluster(1); x <- parallel::clusterEvalQ(cl, c(is.loaded('turnstone_start'), nzchar(Sys.getenv('R_TESTS')))); parallel::stopCluster(cl); x[[1]]")
		if r.OutputText() != "[1] FALSE FALSE\n" {
			t.Errorf("a cluster: got %q", r.Transcript())
		}
	})

	t.Run("children inherit the terminal and no other descriptor", func(t *testing.T) {
		t.Parallel()
		if _, err := os.Stat("/proc/self/fd"); err != nil {
			t.Skip("this system has no /proc")
		}
		w := startWorker(t, workerSetup{})
		w.RunCode("ours <- Sys.readlink(file.path('/proc/self/fd', 200:210)); ours <- ours[grepl('pipe:', ours)]\n" +
			"has <- function(list) any(vapply(ours, function(o) any(grepl(o, list, fixed = TRUE)), NA))")
		w.RunCode("length(ours) >= 3").WantOutput(t, "[1] TRUE\n") // otherwise this test checks nothing
		w.RunCode("has(system('ls -l /proc/self/fd', intern = TRUE))").WantOutput(t, "[1] FALSE\n")
		w.RunCode("has(system2('ls', '-l /proc/self/fd', stdout = TRUE))").WantOutput(t, "[1] FALSE\n")
		w.RunCode("has(readLines(p <- pipe('ls -l /proc/self/fd'))); close(p)").WantOutput(t, "[1] FALSE\n")
		w.RunCode("has(parallel::mclapply(1:2, function(i) system('ls -l /proc/self/fd', intern = TRUE))[[1]])").WantOutput(t, "[1] FALSE\n")
		// A fork without exec does not have the channel either.
		w.RunCode("parallel::mclapply(1:2, function(i) any(c('200', '201') %in% list.files('/proc/self/fd')))[[1]]").WantOutput(t, "[1] FALSE\n")
	})

	t.Run("uses UTF-8 without a locale", func(t *testing.T) {
		t.Parallel()
		s := workerSetup{}
		s.options.Env = []string{"LANG", "LC_ALL", "LC_CTYPE"}
		w := startWorker(t, s)
		w.RunCode("l10n_info()[['UTF-8']]").WantOutput(t, "[1] TRUE\n")
		w.RunCode("nchar('é日')").WantOutput(t, "[1] 2\n")
		w.RunCode("'é'").WantOutput(t, "[1] \"é\"\n")
	})

	t.Run("keeps the locale of the user", func(t *testing.T) {
		t.Parallel()
		s := workerSetup{}
		s.options.Env = []string{"LC_ALL=C"}
		w := startWorker(t, s)
		w.RunCode("l10n_info()[['UTF-8']]").WantOutput(t, "[1] FALSE\n")
		if r := w.RunCode("x <- 'é'; cat(x, '\\n')"); r.Idle == nil || r.Idle.Outcome != ipc.OutcomeOK || r.OutputText() != "é \n" {
			t.Errorf("got %q", r.Transcript())
		}
	})
}
