package r_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// killedReason is the exit reason of a killed worker.
const killedReason = "killed by SIGKILL"

var systemEnv []string

var systemInputCases = []inputCase{
	{"a child", "system('read x; echo got $x')", []string{"it"}, `[sh wait ""][line "it"]got it` + "\n"},
	{"the terminal", "readLines(f <- file('stdin'), 1); close(f)", []string{"it"}, `[R wait ""][line "it"][1] "it"` + "\n"},
}

var systemInterrupts = map[string]string{
	"a child":         "cat('up\\n'); system('sleep 100')",
	"a reading child": "cat('up\\n'); system('cat')",
	"the terminal":    "cat('up\\n'); readLines(file('stdin'), 1)",
	"linear algebra":  "m <- matrix(runif(40000), 200); cat('up\\n'); repeat m %*% m",
	"mclapply":        "cat('up\\n'); parallel::mclapply(1:2, function(i) Sys.sleep(100))",
}

// allowedResults lists other valid results of an interrupt within its second.
var allowedResults = map[string]session.InterruptResult{
	// The kernel restarts a read after a signal, and a child that has just started begins to read.
	// The supervisor may see such a read before it ends.
	"the terminal":    session.InterruptWaiting,
	"a reading child": session.InterruptWaiting,
	// R waits a second before it kills a child that does not end.
	"mclapply": session.InterruptPending,
}

var systemEndCases = []endCase{
	{"a segfault", "f <- function() tools::pskill(Sys.getpid(), 11)\nf()", "killed by SIGSEGV", "caught segfault", false},
	{"SIGKILL", "cat('last\\n'); tools::pskill(Sys.getpid(), 9)", "killed by SIGKILL", "last\n", false},
}

var systemSoakTurns = []string{"system('echo child')", "parallel::mclapply(1:2, function(i) cat(i, '\\n'))", "system('sleep 0.01')"}

func TestOutputOrder(t *testing.T) {
	t.Parallel()
	s := openSession(t, r.Options{})
	for i := range testmain.Rounds(1000) {
		if res := s.RunCode(t, "cat('A\\n'); system('echo B'); cat('C\\n')"); res.Transcript() != "A\nB\nC\n" || res.Outcome != "ok" {
			t.Fatalf("round %d: got %q %s", i, res.Transcript(), res.Outcome)
		}
	}
	for i := range testmain.Rounds(50) {
		res := s.RunCode(t, "cat('a'); message('b'); system('echo c'); x <- parallel::mclapply(1:2, function(i) if (i == 1) cat('d\\n')); cat('e')")
		if res.Transcript() != "a<err>b\n</err>c\nd\ne" || res.Outcome != "ok" {
			t.Fatalf("round %d: got %q %s", i, res.Transcript(), res.Outcome)
		}
	}
}

func TestReset_TemporaryFiles(t *testing.T) {
	t.Parallel()
	s := openSession(t, r.Options{})
	dir := s.RunCode(t, "cat(tempdir()); writeLines('x', tempfile()); invisible(dir.create(d <- tempfile())); invisible(file.create(file.path(d, 'f'))); Sys.chmod(d, '500')").OutputText()
	if err := syscall.Kill(sessionkit.SessionInfo(s).PID, syscall.SIGSTOP); err != nil { // so that the supervisor must kill it
		t.Fatal(err)
	}
	s.RestartWorker(t)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || dir == "" {
		t.Errorf("%q is left: %v", dir, err)
	}
	s.RunCode(t, "dir.exists(tempdir())").WantTranscript(t, "[1] TRUE\n")
}

func TestIdle_CPUTime(t *testing.T) {
	t.Parallel()
	s := openSession(t, r.Options{})
	s.RunCode(t, "1").WantTranscript(t, "[1] 1\n")
	ticks := func() string {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", sessionkit.SessionInfo(s).PID))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		return fields[11] + " " + fields[12]
	}
	switches := func() string {
		var all strings.Builder
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", sessionkit.SessionInfo(s).PID))
		for _, task := range tasks {
			status, _ := os.ReadFile(task)
			for line := range strings.Lines(string(status)) {
				if strings.HasPrefix(line, "voluntary_ctxt_switches") {
					all.WriteString(line)
				}
			}
		}
		return all.String()
	}
	// A busy machine takes a while to finish the work after a turn.
	for range 10 {
		before, woken := ticks(), switches()
		<-time.After(time.Second)
		now, wokenSince := ticks(), switches()
		if now == before && wokenSince == woken {
			return
		}
		t.Logf("a second took processor time %s, was %s; and woke up %s, was %s", now, before, wokenSince, woken)
	}
	t.Error("it was never idle for a second")
}
