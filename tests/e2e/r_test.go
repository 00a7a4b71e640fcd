//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// newRHome returns a home in which the system's R has only the test's profiles.
func newRHome(t *testing.T) home {
	t.Helper()
	found, _, err := r.Find(r.FindOptions{})
	if err != nil {
		t.Skipf("R is not installed: install it with apt-get install r-base-core (%v)", err)
	}
	h := newHome(t)
	h.env = append(h.env, "HOME="+h.dir, "R_HOME=", "R_PROFILE=", "R_TESTS=", "R_ENVIRON=", "PATH="+filepath.Dir(found.Path)+":"+os.Getenv("PATH"))
	return h
}

func (h home) writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := testexec.WriteExecutable(path, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestR_EndsWhileIdle(t *testing.T) {
	t.Parallel()
	t.Run("of R itself is reported, not silently repaired", func(t *testing.T) {
		t.Parallel()
		p := newRHome(t).startTerminal(t, "--lang", "r")
		p.waitText("Ctrl-D ends.")
		p.waitText("> ")
		p.enterLine("x <- 5; cat('it', 'is', Sys.getpid(), 'here')")
		p.waitText("it is ")
		pid, err := strconv.Atoi(strings.TrimSpace(p.waitText(" here")))
		if err != nil {
			t.Fatal(err)
		}
		p.waitText("> ")
		if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil { // R saves and quits
			t.Fatal(err)
		}
		p.waitText("[exit status 2;")
		p.waitText("its state is lost, and the next input starts a new one]")
		p.enterLine("exists('x')")
		p.waitText("[1] ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
	})
}

func TestR(t *testing.T) {
	t.Parallel()

	t.Run("returns the output and the status of the code", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		t.Cleanup(func() { h.wantNothingLeft(t) })
		for _, test := range []struct {
			name, code string
			want       result
		}{
			{"values", "6 * 7; invisible(1)\nletters[1:2]", result{"[1] 42\n[1] \"a\" \"b\"\n", "", 0}},
			{"both streams", `cat("out\n"); message("err")`, result{"out\n", "err\n", 0}},
			{"a child's output, in order", "cat('1\\n'); system('echo 2'); cat('3\\n')", result{"1\n2\n3\n", "", 0}},
			{"an error", "cat('before\\n')\nstop('no')\ncat('after\\n')", result{"before\n", "Error: no\n", 1}},
			{"what does not parse", "cat('before\\n')\nif )", result{"before\n", "Error: unexpected ')' in \"if )\"\n", 1}},
			{"an exit", "quit(status = 7)", result{"", "", 7}},
			{"an exit handler", ".Last <- function() cat('bye\\n')", result{"bye\n", "", 0}},
			{"killed", "tools::pskill(Sys.getpid(), 9)", result{"", "repl: killed by SIGKILL\n", 137}},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				wantResult(t, h.runRepl(t, "", "--lang", "r", "-e", test.code), test.want)
			})
		}
		wantResult(t, h.runRepl(t, "", "--lang", "r", "-e", "x <- 20", "-e", "x * 2.1", "-e", "'b'"), result{"[1] 42\n[1] \"b\"\n", "", 0})
		wantResult(t, h.runRepl(t, "x <- 20\nx * 2.1\n", "--lang", "r"), result{"[1] 42\n", "", 0})
		wantResult(t, h.runRepl(t, "a\nb\n", "--lang", "r", "-e", "rev(readLines(file('stdin')))"), result{"[1] \"b\" \"a\"\n", "", 0})
	})

	// Rscript is the reference for how a file runs.
	t.Run("a file runs as with Rscript", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		rscript := filepath.Join(systemRHome(t), "bin", "Rscript")
		for name, c := range map[string]struct {
			code   string
			script string // "$0" is Rscript, or our replacement
		}{
			"its arguments":         {"#!/usr/bin/env Rscript\ncommandArgs(trailingOnly = TRUE)\ncommandArgs()[-1]\n", `"$0" s.R a "b c" --lang "" -e -g Tk --args x --version`},
			"what is printed":       {"x <- 1\nx\nf <- function(n) {\n  n + 1\n}\nprint(f(x))\nwarning('careful')\nf <- function() warning('again'); f(); message('m')\n", `"$0" s.R`},
			"a status":              {"quit(status = 4)\n", `"$0" s.R`},
			"an error":              {"f <- function() stop('deep'); f()\ncat('never')\n", `"$0" s.R; echo $?`},
			"what does not parse":   {"x <- 1\nif )\n", `"$0" s.R; echo $?`},
			"its own lines":         {"readLines(stdin(), 1)\nwhat it reads\nscan(quiet = TRUE)\n1 2\n\n", `"$0" s.R`},
			"standard input":        {"readLines('stdin')\n", `printf 'a\nb' | "$0" s.R`},
			"questions":             {"x <- readline('q? ')\nx\ninteractive()\nmenu(c('a', 'b'))\n", `echo 1 | "$0" s.R; echo $?`},
			"a child's errors":      {"invisible(system('echo o; echo e >&2'))\n", `"$0" s.R 2>/dev/null`},
			"a reader that leaves":  {"for (i in 1:100000) cat(i, '\\n')\n", `"$0" s.R | head -1`},
			"a signal":              {"tools::pskill(Sys.getpid(), 15); Sys.sleep(1000)\n", `"$0" s.R; echo $?`},
			"an interrupt":          {"tools::pskill(Sys.getpid(), 2); Sys.sleep(1000)\n", `"$0" s.R; echo $?`},
			"a plot":                {"plot(1)\ndev.cur()\n", `"$0" s.R; ls *.pdf`},
			"its own variables":     {"Sys.getenv(c('R_HOME', 'R_PROFILE_USER', 'LC_CTYPE', 'TERM', 'TMPDIR'))\n", `"$0" s.R`},
			"an end":                {".Last <- function() cat('last\\n')\n1\n", `"$0" s.R`},
			"a name with a blank":   {"1\n", `mv s.R 's 2.R'; "$0" 's 2.R'`},
			"a name of a directory": {"sub('--file=', '', grep('--file=', commandArgs(), value = TRUE))\n", `mkdir -p d; mv s.R d; "$0" ./d/s.R`},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				of := func(program string) result {
					h := h
					h.dir = t.TempDir()
					h.writeFile(t, "s.R", c.code)
					var stdout, stderr strings.Builder
					cmd := h.command(t)
					cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", c.script, program}
					cmd.Stdout, cmd.Stderr = &stdout, &stderr
					_ = cmd.Run()
					return result{stdout.String(), stderr.String(), exitStatusOf(t, cmd)}
				}
				wantResult(t, of(replbin.Path()), of(rscript))
			})
		}
	})

	// Each message is one line that names the given value.
	t.Run("wrong choices are reported in one line", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		old := h.writeFile(t, "old/bin/R", "#!/bin/sh\nR_HOME_DIR="+h.dir+"/old\n")
		h.writeFile(t, "old/library/base/DESCRIPTION", "Version: 3.6.3\n")
		for _, test := range []struct {
			args, env []string
			status    int
			words     []string
		}{
			{[]string{"--r", "/nowhere/R"}, nil, 2, []string{`"/nowhere/R"`, "does not exist"}},
			{[]string{"--r", "1.0"}, nil, 2, []string{`"1.0"`, "is R "}},
			{[]string{"--r", old}, nil, 2, []string{"R 3.6.3", "4.0 or newer"}},
			{[]string{"--lang", "python", "--r", "4"}, nil, 2, []string{"--r 4", "--lang python"}},
			{[]string{"--lang", "r", "--python", "3"}, nil, 2, []string{"--python 3", "--lang r"}},
			{[]string{"--lang", "r"}, []string{"R_HOME=/nowhere"}, 1, []string{"R_HOME=/nowhere", "unset"}},
			{[]string{"--lang", "r"}, []string{"R_HOME=" + filepath.Dir(filepath.Dir(old))}, 1, []string{"R_HOME", "R 3.6.3", "4.0"}},
		} {
			h := h
			h.env = append(h.env, test.env...)
			got := h.runRepl(t, "", append(test.args, "-e", "1")...)
			if got.status != test.status || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("%q: got %v, want status %d and one line", test.args, got, test.status)
			}
			for _, word := range test.words {
				if !strings.Contains(got.stderr, word) {
					t.Errorf("%q: %q is not in %q", test.args, word, got.stderr)
				}
			}
		}
	})

	t.Run("a named R chooses the language", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		wantResult(t, h.runRepl(t, "", "--r", systemRHome(t), "-e", "1L"), result{"[1] 1\n", "", 0})
	})

	// R would stop at its own prompt, which repl cannot see.
	t.Run("reports an environment file that keeps the worker out", func(t *testing.T) {
		t.Parallel()
		if _, err := os.ReadFile("/proc/self/syscall"); err != nil {
			t.Skipf("this system does not show who reads the terminal: %v", err)
		}
		h := newRHome(t)
		other := h.writeFile(t, "other.R", "")
		h.writeFile(t, ".Renviron", "R_TESTS="+other+"\nR_PROFILE="+other+"\nR_PROFILE_USER="+other+"\n")
		got := h.runRepl(t, "", "--lang", "r", "-e", "1")
		if got.status != 1 || !strings.Contains(got.stderr, ".Renviron must not set all of R_TESTS, R_PROFILE and R_PROFILE_USER") {
			t.Errorf("got %v", got)
		}
	})
}

// systemRHome returns the home of the system's R, which contains Rscript.
func systemRHome(t *testing.T) string {
	t.Helper()
	got := newRHome(t).runRepl(t, "", "--lang", "r", "-e", "cat(R.home())")
	if got.status != 0 {
		t.Fatalf("got %v", got)
	}
	return got.stdout
}
