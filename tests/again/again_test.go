// Package again tests the script scripts/again, which distinguishes flaky from broken tests. It
// runs the script on a module with tests that fail in each way.
package again

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// runOnceScript is part of each package: a test fails only the first time that it calls once.
const runOnceScript = `
import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func once(t *testing.T) {
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(at) + " " + strings.ReplaceAll(t.Name(), "/", " ")
	if os.Mkdir(filepath.Join(os.Getenv("JUDGED_DIR"), name), 0o700) == nil {
		t.Error("the first time")
	}
}
`

// A testModule is a module with failing tests, and the state of a CI run.
type testModule struct {
	dir       string // the module, with the script
	testState string // what its tests remember
	ciRun     string // what the CI run has examined
	cache     string
}

// newTestModule creates a module with this content of .ci/flaky, and a package for each of these
// files.
func newTestModule(t *testing.T, listed string, files map[string]string) *testModule {
	t.Helper()
	for _, tool := range []string{"bash", "flock", "timeout"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the script needs %s: %v", tool, err)
		}
	}
	dir := t.TempDir()
	j := &testModule{filepath.Join(dir, "module"), filepath.Join(dir, "was"), filepath.Join(dir, "run"), filepath.Join(dir, "cache")}
	script, err := os.ReadFile("../../scripts/again")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"go.mod":        "module example.org/judged\n\ngo 1.26\n",
		".ci/flaky":     listed,
		"scripts/again": string(script),
	}
	for name, text := range files {
		all[name+"/"+name+"_test.go"] = "package " + name + "\n" + text
		all[name+"/once_test.go"] = "package " + name + "\n" + runOnceScript
	}
	for name, text := range all {
		path := filepath.Join(j.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{j.testState, j.ciRun, j.cache} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// runCommand returns the output of a program in the module, and its exit status.
func (m *testModule) runCommand(t *testing.T, name string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = m.dir
	cmd.Env = append(os.Environ(), "GOCACHE="+goCache(t), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "GOTOOLCHAIN=local",
		"XDG_CACHE_HOME="+m.cache, "TURNSTONE_AGAIN="+m.ciRun, "JUDGED_DIR="+m.testState)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// runJudge runs the tests, which fail, and returns the script's output about them.
func (m *testModule) runJudge(t *testing.T, args ...string) (output string, status int) {
	t.Helper()
	args = append([]string{"-vet=off"}, args...)
	out, status := m.runCommand(t, "go", append([]string{"test", "-v=test2json"}, args...)...)
	if status == 0 {
		t.Fatalf("no test failed:\n%s", out)
	}
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	output, status = m.runCommand(t, filepath.Join(m.dir, "scripts", "again"), append([]string{log}, args...)...)
	t.Cleanup(func() {
		if t.Failed() { // a passing test must not print verdicts: in a CI log they would be mistaken for real ones
			t.Logf("exit status %d\n%s", status, output)
		}
	})
	return output, status
}

// resetRun makes the tests fail again, in another CI run.
func (m *testModule) resetRun(t *testing.T) {
	t.Helper()
	for _, d := range []string{m.testState, m.ciRun} {
		if err := errors.Join(os.RemoveAll(d), os.Mkdir(d, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// verdictLines returns the lines that start with FLAKY or BROKEN, in order.
func verdictLines(output string) []string {
	lines := regexp.MustCompile(`(?m)^(FLAKY|BROKEN): .*`).FindAllString(output, -1)
	slices.Sort(lines)
	return lines
}

const flakyMessage = ": it failed, and then passed 3 times alone and once among the tests of its package"

// All kinds of failures occur in one run, and no package is mistaken for another.
func TestVerdict(t *testing.T) {
	t.Parallel()
	j := newTestModule(t, "", map[string]string{
		"alone":    "import \"testing\"\nfunc TestAlways(t *testing.T) { t.Error(1) }\nfunc TestOnce(t *testing.T) { once(t) }\n",
		"built":    "import \"testing\"\nfunc TestNot(t *testing.T) { missing() }\n",
		"exits":    "import (\"os\"; \"testing\")\nfunc TestExits(t *testing.T) { once(t); if t.Failed() { os.Exit(1) } }\n",
		"fuzzes":   "import \"testing\"\nfunc FuzzOnce(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) { t.Error(n) }) }\n",
		"mains":    "import (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(1) }\nfunc TestPasses(t *testing.T) {}\n",
		"ends":     "import (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { os.Exit(1) }\nfunc TestNever(t *testing.T) {}\n",
		"panics":   "import \"testing\"\nfunc TestOnce(t *testing.T) { once(t); if t.Failed() { panic(1) } }\n",
		"late":     "import (\"sync\"; \"testing\")\nfunc TestHangs(t *testing.T) { once(t); if t.Failed() { var l sync.Mutex; l.Lock(); l.Lock() } }\n",
		"skips":    "import \"testing\"\nfunc TestSkips(t *testing.T) { once(t); if !t.Failed() { t.Skip(\"not now\") } }\n",
		"together": "import \"testing\"\nvar first bool\nfunc TestA(t *testing.T) { first = true }\nfunc TestB(t *testing.T) { if first { t.Error(2) } }\n",
		// Its output looks like the results of other packages.
		"talks": `
import (
	"fmt"
	"testing"
)

func TestTalks(t *testing.T) {
	fmt.Print("panic: printed\n\ngoroutine 1 [running]:\nFAIL\texample.org/judged/other\t0.1s\nok  \texample.org/judged/other\t0.1s\n")
	t.Log("panic: logged\nfatal error: logged\nWARNING: DATA RACE\n--- FAIL: TestLogged (0.00s)\nFAIL")
	t.Run("in part", func(t *testing.T) {
		t.Parallel()
		fmt.Print("no end of line")
		once(t)
	})
}
`,
	})
	output, status := j.runJudge(t, "-p=2", "-timeout=5s", "./...")
	want := map[string]string{
		"alone TestAlways": "it failed again alone",
		"alone TestOnce":   "it passed alone, but its package has another broken test",
		"built":            "a package that was not built is proof, and is not run again",
		"exits":            "a process that ended before its tests is proof, and is not run again",
		"fuzzes":           "an input of FuzzOnce is proof, and is not run again",
		"mains":            "a failure outside of its tests is proof, and is not run again",
		"ends":             "a process that ended before its tests is proof, and is not run again",
		"panics":           "a panic is proof, and is not run again",
		"late":             "a time-out is proof, and is not run again",
		"skips TestSkips":  "it did not run 3 times alone",
		"together":         "all of its tests together failed again",
		"together TestB":   "it passed alone, but not among the tests of its package",
	}
	lines := []string{"FLAKY: example.org/judged/talks TestTalks" + flakyMessage}
	for what, why := range want {
		lines = append(lines, "BROKEN: example.org/judged/"+what+": "+why)
	}
	slices.Sort(lines)
	if got := verdictLines(output); !slices.Equal(got, lines) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
	if status != 1 {
		t.Errorf("got exit status %d, want 1", status)
	}
	saved, err := os.ReadFile(filepath.Join(j.ciRun, "failures"))
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "FLAKY") })
	if got := verdictLines(string(saved)); err != nil || !slices.Equal(got, lines) || !strings.Contains(string(saved), ": the first time\n") {
		t.Errorf("saved %q, error %v; want the verdicts and the tests' output", saved, err)
	}
}

const flakyTests = `import "testing"
func TestA(t *testing.T) { once(t) }
func TestB(t *testing.T) { once(t) }
func TestC(t *testing.T) { once(t) }
`

func TestFlaky(t *testing.T) {
	t.Parallel()
	const a = "example.org/judged/p TestA"
	one := []string{"-run=^TestA$", "./..."}

	t.Run("is tolerated once, but not twice", func(t *testing.T) {
		t.Parallel()
		j := newTestModule(t, "", map[string]string{"p": flakyTests})
		output, status := j.runJudge(t, one...)
		line := a + " " + time.Now().Format(time.DateOnly) + " "
		for _, want := range []string{"FLAKY: " + a + flakyMessage, ": the first time\n", "Add to .ci/flaky: " + line,
			"Next to two busy loops, " + a + " failed 0 of "} {
			if !strings.Contains(output, want) {
				t.Errorf("the output lacks %q", want)
			}
		}
		if status != 0 {
			t.Errorf("got exit status %d, want 0", status)
		}

		j.resetRun(t)
		output, status = j.runJudge(t, one...)
		if status != 1 || !strings.Contains(output, "It was flaky before, so fix it: "+line) {
			t.Errorf("got exit status %d, want 1 and the earlier line", status)
		}

		// A line of more than two weeks ago is forgotten.
		saved := filepath.Join(j.cache, "turnstone", "flaky")
		old := a + " " + time.Now().AddDate(0, 0, -15).Format(time.DateOnly) + " somebody\n"
		if err := os.WriteFile(saved, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		j.resetRun(t)
		if _, status = j.runJudge(t, one...); status != 0 {
			t.Errorf("got exit status %d, want 0", status)
		}
		if now, err := os.ReadFile(saved); err != nil || !strings.HasPrefix(string(now), line) || strings.Count(string(now), "\n") != 1 {
			t.Errorf("got %q and %v in the cache, want one line of today", now, err)
		}
	})

	t.Run("fails if the tree lists the test", func(t *testing.T) {
		t.Parallel()
		j := newTestModule(t, "# "+a+"\n"+a+" 2020-01-01 somebody else\n", map[string]string{"p": flakyTests})
		output, status := j.runJudge(t, one...)
		if status != 1 || !strings.Contains(output, "It was flaky before, so fix it: "+a+" 2020-01-01 somebody else\n") {
			t.Errorf("got exit status %d, want 1, and the line in the tree", status)
		}
	})

	t.Run("fails after three flaky tests in all steps", func(t *testing.T) {
		t.Parallel()
		j := newTestModule(t, "", map[string]string{"p": flakyTests})
		output, status := j.runJudge(t, "-run=^Test[AB]$", "./...")
		if len(verdictLines(output)) != 2 || status != 0 {
			t.Errorf("got exit status %d, want 0, and two", status)
		}
		output, status = j.runJudge(t, "-run=^TestC$", "./...")
		if want := "3 tests of this run are flaky, and more than 2 are too many\n"; status != 1 || !strings.Contains(output, want) {
			t.Errorf("got exit status %d, want 1, and %q", status, want)
		}
	})

	t.Run("is undecided if no time is left", func(t *testing.T) {
		t.Parallel()
		j := newTestModule(t, "", map[string]string{"p": flakyTests})
		if err := os.WriteFile(filepath.Join(j.ciRun, "seconds"), []byte("360\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		output, status := j.runJudge(t, one...)
		if want := []string{"BROKEN: " + a + ": the 360 s for repeated runs are used up"}; status != 1 || !slices.Equal(verdictLines(output), want) {
			t.Errorf("got exit status %d, want 1, and %q", status, want)
		}
	})

	t.Run("is run again with the same flags", func(t *testing.T) {
		t.Parallel()
		j := newTestModule(t, "", map[string]string{"p": `import ("os"; "testing")
func TestA(t *testing.T) { once(t); if os.Getenv("JUDGED_EXEC") != "yes" { t.Error("no -exec") } }
func TestB(t *testing.T) { t.Error("this one is left out") }
`})
		output, status := j.runJudge(t, "-exec", "env JUDGED_EXEC=yes", "-skip", "^TestB$", "-p", "1", "-parallel", "1", "-count=1", "-timeout", "1m", "./p", "example.org/judged/...")
		if want := []string{"FLAKY: " + a + flakyMessage}; status != 0 || !slices.Equal(verdictLines(output), want) {
			t.Errorf("got exit status %d, want 0, and %q", status, want)
		}
	})
}

func TestRace(t *testing.T) {
	t.Parallel()
	j := newTestModule(t, "", map[string]string{
		"plain": flakyTests,
		"races": `import "testing"
func TestRaces(t *testing.T) {
	once(t)
	if t.Failed() {
		n, done := 0, make(chan int)
		go func() { n++; close(done) }()
		n++
		<-done
	}
}
`})
	if out, err := exec.Command("go", "env", "CGO_ENABLED").Output(); err != nil || strings.TrimSpace(string(out)) != "1" {
		t.Skip("the race detector needs cgo")
	}
	output, status := j.runJudge(t, "-race", "-run=^Test(A|Races)$", "./...")
	want := []string{"BROKEN: example.org/judged/races: a data race is proof, and is not run again", "FLAKY: example.org/judged/plain TestA" + flakyMessage}
	if got := verdictLines(output); status != 1 || !slices.Equal(got, want) {
		t.Errorf("got exit status %d and %q, want 1 and %q", status, got, want)
	}
}
