//go:build linux

package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/interpreters"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// stepTimeout bounds how long a program may take for one step. A step that comes near it has failed.
const stepTimeout = 30 * time.Second

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{BuildRepl: true})
}

// A programTest drives one program in a session, from its first question to its end.
type programTest struct {
	name  string
	needs []string // commands, files of the installation, or "python3.13"
	lang  string   // of the session; "" is Python
	dumb  bool     // TERM is dumb, and not xterm-256color
	quiet bool     // no system call shows that the program wants input, so it is only typed to
	start string   // code that starts the program; see expandPaths
	asks  string   // what the program shows when it asks for the first time
	steps []step
}

// A step is one call of repl. The next one follows when a reply or the screen shows the text. The
// text of the last step is shown at the end of the turn.
type step struct {
	argument string // input or keys
	text     string
	shows    string
}

func answer(text, shows string) step { return step{"input", text, shows} }

func keys(text, shows string) step { return step{"keys", text, shows} }

// pythonString returns a string literal of Python.
func pythonString(text string) string { return fmt.Sprintf("%+q", text) }

// runProgram returns code for Python that runs a program, and then prints its status.
func runProgram(argv ...string) string {
	var quoted []string
	for _, word := range argv {
		quoted = append(quoted, pythonString(word))
	}
	return "import subprocess\nprint('status', subprocess.run([" + strings.Join(quoted, ", ") + "]).returncode)"
}

func runShell(script string) string { return runProgram("bash", "-c", script) }

func runPython(code string) string { return runProgram("{python}", "-c", code) }

func runNode(code string) string { return runProgram("node", "-e", code) }

// programsDir returns the directory of the script install, and skips the test if it is missing.
func programsDir(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "turnstone", "programs")
	if _, err := os.Stat(filepath.Join(dir, "go_programs.done")); err != nil {
		t.Skip("the terminal programs are not installed; scripts/setup-dev installs them")
	}
	return dir
}

// recentPython returns an interpreter whose own prompt is an editor, and skips the test without one.
func recentPython(t *testing.T) string {
	t.Helper()
	all, err := interpreters.Installed()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(p interpreters.InstalledPython) bool {
		return regexp.MustCompile(`^3\.(1[3-9]|[2-9]\d)`).MatchString(p.Version)
	})
	if i < 0 {
		t.Skip("no Python 3.13 or newer")
	}
	return all[i].Path
}

// expandPaths replaces the names of programs in braces by their paths, and skips the test if one of
// the programs is missing.
func expandPaths(t *testing.T, code string, needs []string) string {
	t.Helper()
	dir := programsDir(t)
	code = strings.NewReplacer("{python}", filepath.Join(dir, "python", "bin", "python"), "{bin}", filepath.Join(dir, "bin"),
		"{clack}", filepath.Join(dir, "node_modules/@clack/prompts/dist/index.mjs"),
		"{inquirer}", filepath.Join(dir, "node_modules/@inquirer/prompts/dist/index.js")).Replace(code)
	for _, name := range needs {
		switch {
		case name == "python3.13":
			code = strings.ReplaceAll(code, "{python3.13}", recentPython(t))
		case strings.Contains(name, "/"):
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Skipf("%s is not built: cargo 1.66 or newer is not installed", filepath.Base(name))
			}
		default:
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("%s is not installed", name)
			}
		}
	}
	return code
}

// runPrograms drives each program of a table in a session of its own.
func runPrograms(t *testing.T, tests []programTest) {
	t.Helper()
	programsDir(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.drive(t)
		})
	}
}

func (p *programTest) drive(t *testing.T) {
	t.Helper()
	code := expandPaths(t, p.start, p.needs)
	u := newUser(t, p.lang)
	u.prepare(p.dumb)
	timeout := 10 * time.Second
	if p.quiet {
		timeout = time.Second
	}
	reply := u.repl(timeout, "input", code)
	if !p.quiet {
		u.wantQuestion(reply)
	}
	u.wantShown(reply, p.asks)
	for _, s := range p.steps {
		u.wantShown(u.repl(timeout, s.argument, s.text), s.shows)
	}
	u.wantIdle()
}

// prepare makes the session's programs believe in a terminal, and find no settings of the user.
func (u *user) prepare(dumb bool) {
	u.t.Helper()
	variables := [][2]string{
		{"TERM", "xterm-256color"}, {"HOME", u.dir}, {"LANG", "C.UTF-8"}, {"INPUTRC", "/dev/null"},
		{"EDITOR", "vim -u NONE"}, {"TMUX", ""}, {"PAGER", "less"}, {"LESS", ""}, {"GIT_CONFIG_NOSYSTEM", "1"},
	}
	if dumb {
		variables[0][1] = "dumb"
	}
	var code strings.Builder
	for _, v := range variables {
		if u.lang == "r" {
			fmt.Fprintf(&code, "Sys.setenv(%s = %+q)\n", v[0], v[1])
		} else {
			fmt.Fprintf(&code, "import os; os.environ[%+q] = %+q\n", v[0], v[1])
		}
	}
	u.repl(stepTimeout, "input", code.String())
}

// questionStates matches the line of a reply that says that a program wants input.
var questionStates = regexp.MustCompile(`(?m)^\[[^\n]*(waiting for|waits for|listens for)`)

// wantQuestion waits until the session says that a program wants input.
func (u *user) wantQuestion(reply string) {
	u.t.Helper()
	if !wait.Within(stepTimeout, func() bool {
		if !questionStates.MatchString(reply) {
			reply = u.output(200 * time.Millisecond)
		}
		return questionStates.MatchString(reply)
	}) {
		u.t.Fatalf("no program is said to want input:\n%s", u.transcript())
	}
}

// wantShown waits until a reply or the screen shows text. It begins with a reply that has been read.
func (u *user) wantShown(reply, text string) {
	u.t.Helper()
	if strings.Contains(reply, text) {
		return
	}
	all := reply
	if !wait.Within(stepTimeout, func() bool {
		if strings.Contains(u.screen(), text) {
			return true
		}
		all += u.output(200 * time.Millisecond)
		return strings.Contains(all, text)
	}) {
		u.t.Fatalf("nothing shows %q:\n%s", text, u.transcript())
	}
	u.t.Logf("%q came after the reply: %.300q", text, reply)
}

// wantIdle checks that the next input is code, and that nothing typed before it is part of it.
func (u *user) wantIdle() {
	u.t.Helper()
	code := "print('still', 6 * 7)"
	if u.lang == "r" {
		code = "cat('still', 6 * 7, '\\n')"
	}
	reply := ""
	if !wait.Within(stepTimeout, func() bool {
		reply = u.repl(10*time.Second, "input", code)
		return strings.HasSuffix(strings.TrimSpace(reply), "still 42") || !strings.Contains(reply, "NOT run")
	}) || !strings.HasSuffix(strings.TrimSpace(reply), "still 42") {
		u.t.Fatalf("the session is not idle: %q\n%s", reply, u.transcript())
	}
}
