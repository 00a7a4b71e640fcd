//go:build linux || darwin

package r_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestBoot(t *testing.T) {
	t.Parallel()

	// .Renviron may set any of the variables that name boot.R. In each case every profile runs once and
	// in R's order, and afterwards all variables have their normal values.
	t.Run("starts whatever .Renviron sets", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		file := func(name, text string) string {
			path := filepath.Join(dir, name)
			writeFile(t, path, text)
			return path
		}
		other := file("other.R", "cat('other\\n')\n")
		for _, c := range []struct {
			name, renviron, profiles string
			R_TESTS, R_PROFILE       string
		}{
			{"nothing", "", "site\nuser\n", "", "the site's"},
			{"R_PROFILE", "R_PROFILE=" + other + "\n", "other\nuser\n", "", other},
			{"R_TESTS", "R_TESTS=" + other + "\n", "other\nsite\nuser\n", other, "the site's"},
			{"both", "R_TESTS=" + other + "\nR_PROFILE=" + other + "\n", "other\nother\nuser\n", other, other},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s := workerSetup{
					siteProfile: "cat('site\\n')\nassign('site', Sys.getenv('R_PROFILE'), globalenv())\n",
					rprofile:    "cat('user\\n')\n",
				}
				s.options.Env = []string{"R_ENVIRON_USER=" + file(c.name, c.renviron)}
				s.NoTurn0 = true
				w := startWorker(t, s)
				if got := w.FinishTurn(); got.OutputText() != c.profiles || describeOutcome(got) != "ok" {
					t.Errorf("the profiles printed %q, want %q", got.Transcript(), c.profiles)
				}
				site := c.R_PROFILE
				if site == "the site's" {
					site = w.RunCode("cat(site)").OutputText()
				}
				w.RunCode(`cat(Sys.getenv(c("R_TESTS", "R_PROFILE"), "none"), sep = "\n")`).WantOutput(t, orDefault(c.R_TESTS, "none")+"\n"+site+"\n")
				w.RunCode(`grep("^TURNSTONE|^REPL_IPC", names(Sys.getenv()), value = TRUE)`).WantOutput(t, "character(0)\n")
			})
		}
	})

	// Profiles, .First and .RData run as in plain R, with no call of the worker around them.
	t.Run("runs profiles at the top level", func(t *testing.T) {
		t.Parallel()
		frames := "cat('frame', sys.nframe(), interactive(), '\\n')\n"
		s := workerSetup{siteProfile: frames, rprofile: frames + ".First <- function() cat('first\\n')\n"}
		s.NoTurn0 = true
		w := startWorker(t, s)
		if got, want := w.FinishTurn().OutputText(), "frame 0 TRUE \nframe 0 TRUE \nfirst\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		w.RunCode("ls(all.names = TRUE); search()[2]").WantOutput(t, "[1] \".First\"\n[1] \"package:stats\"\n")
	})

	t.Run("restores the variables of the user", func(t *testing.T) {
		t.Parallel()
		other := filepath.Join(t.TempDir(), "other.R")
		writeFile(t, other, "cat('other', basename(Sys.getenv('R_TESTS')), '\\n')\n")
		s := workerSetup{}
		s.options.Env = []string{"R_TESTS=" + other, "R_PROFILE="}
		s.NoTurn0 = true
		w := startWorker(t, s)
		if got, want := w.FinishTurn().OutputText(), "other other.R \n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		w.RunCode(`Sys.getenv(c("R_TESTS", "R_PROFILE"), "none") == c("`+other+`", "")`).WantOutput(t, "  R_TESTS R_PROFILE \n     TRUE      TRUE \n")
	})

	// R's own temporary directory is below the worker's, and TMPDIR is the user's.
	t.Run("removes the temporary files with the worker", func(t *testing.T) {
		t.Parallel()
		one, other := t.TempDir(), t.TempDir()
		for _, c := range []struct{ name, given, renviron, tmpdir, parent string }{
			{"of a value", "TMPDIR=" + one, "", one, "files"},
			{"of none", "TMPDIR", "", "none", "files"},
			{"of .Renviron", "TMPDIR=" + one, "TMPDIR=" + other + "\n", other, other},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				renviron := filepath.Join(t.TempDir(), "Renviron")
				writeFile(t, renviron, c.renviron)
				s := workerSetup{}
				s.options.Env = []string{c.given, "R_ENVIRON_USER=" + renviron}
				w := startWorker(t, s)
				w.RunCode(`cat(Sys.getenv("TMPDIR", "none"))`).WantOutput(t, c.tmpdir)
				w.RunCode(`system("echo ${TMPDIR-none}")`).WantOutput(t, c.tmpdir+"\n")
				w.RunCode(`dir.exists(tempdir()); cat(if (file.exists(file.path(dirname(tempdir()), "boot.R"))) "files" else dirname(tempdir()))`).WantOutput(t, "[1] TRUE\n"+c.parent)
			})
		}
	})

	t.Run("reports why the shim does not load", func(t *testing.T) {
		t.Parallel()
		spec := newSpec(t, workerSetup{options: r.Options{}})
		spec.Preparations = nil
		spec.Files["turnstone.so"] = []byte("no library\n")
		w := rawworker.StartWorker(t, spec, rawworker.WorkerOptions{NoTurn0: true})
		got := w.FinishTurn()
		if text := got.OutputText(); !strings.Contains(text, "turnstone: R cannot load the worker's library: ") || !strings.Contains(text, "turnstone.so") {
			t.Errorf("got %q", text)
		}
		if status := w.ExitStatus(); status.ExitStatus() != 3 {
			t.Errorf("got status %v", status)
		}
	})

	// An R before 4.0 shows its version itself. Files around a wrapper may not.
	t.Run("reports an R that is too old", func(t *testing.T) {
		t.Parallel()
		spec := newSpec(t, workerSetup{})
		boot := strings.Replace(string(spec.Files["boot.R"]), "local({\n", "local({\n  R.version <- list(major = '3', minor = '6.3')\n", 1)
		spec.Files["boot.R"] = []byte(boot)
		w := rawworker.StartWorker(t, spec, rawworker.WorkerOptions{NoTurn0: true})
		if got, want := w.FinishTurn().OutputText(), "turnstone: this is R 3.6.3; the worker needs R 4.0 or newer"; !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if status := w.ExitStatus(); status.ExitStatus() != 3 {
			t.Errorf("got status %v", status)
		}
	})
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func TestSpec_Args(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{options: r.Options{Args: []string{"a", "b c", "--save", ""}}})
	w.RunCode("commandArgs(trailingOnly = TRUE)").WantOutput(t, `[1] "a"      "b c"    "--save" ""      `+"\n")
}

func TestFind_System(t *testing.T) {
	t.Parallel()
	found, _, err := r.Find(r.FindOptions{})
	if err != nil {
		t.Skipf("R is not installed: install it with apt-get install r-base-core (%v)", err)
	}
	if _, err := os.Stat(found.Path); err != nil || found.Version == "" {
		t.Errorf("got %+v, %v", found, err)
	}
	startWorker(t, workerSetup{}).RunCode(`cat(R.version$major, R.version$minor, sep = ".")`).WantOutput(t, found.Version)
}
