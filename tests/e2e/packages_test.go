//go:build unix

package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/internal/testkit/wheel"
)

// withTinyPackage returns a home whose pip knows one package, tiny, and reaches nothing else.
func withTinyPackage(t *testing.T, h home) home {
	t.Helper()
	dir := wheel.BuildDir(t, "tiny", "answer = 42\n")
	h.env = slices.Insert(h.env, len(h.env)-1, // the socket must stay last
		"PIP_NO_INDEX=1", "PIP_FIND_LINKS="+dir, "UV_NO_INDEX=1", "UV_OFFLINE=1", "UV_FIND_LINKS="+dir,
		"XDG_CACHE_HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=")
	return h
}

func TestWith(t *testing.T) {
	t.Parallel()

	t.Run("packages are available to one program only", func(t *testing.T) {
		t.Parallel()
		skipWithoutInstaller(t)
		h := withTinyPackage(t, newHome(t))
		wantResult(t, h.runRepl(t, "", "--with", "tiny", "-e", "import tiny; print(tiny.answer)"), result{"42\n", "", 0})
		wantResult(t, h.runRepl(t, "import tiny; print(tiny.answer)", "--with", "tiny"), result{"42\n", "", 0})
		if r := h.runRepl(t, "", "-e", "import tiny"); r.status != 1 || !strings.Contains(r.stderr, "ModuleNotFoundError") {
			t.Errorf("without --with: %v", r)
		}
		wantResult(t, h.runRepl(t, "", "--with", "tiny", "-c", "import tiny; print(tiny.answer)"), result{"42\n", "", 0})
		for _, option := range []string{"-e", "-c"} {
			if r := h.runRepl(t, "", "--with", "nosuchthing", option, "1"); r.status != 1 || !strings.Contains(r.stderr, "nosuchthing cannot be prepared") || r.stdout != "" {
				t.Errorf("an unknown package: %v", r)
			}
		}
		wantResult(t, h.runRepl(t, "", "--with", "-r x", "-e", "1"),
			result{"", "repl: --with: \"-r x\" is not a Python requirement; write it as for pip, such as numpy or 'numpy>=2'\n", 2})
		h.wantNothingLeft(t)
	})

	t.Run("gives up at Ctrl-C", func(t *testing.T) {
		t.Parallel()
		for _, option := range []string{"-e", "-c"} {
			t.Run(option, func(t *testing.T) {
				t.Parallel()
				h := withTinyPackage(t, newHome(t))
				bin := t.TempDir()
				uv := filepath.Join(bin, "uv")
				if err := testexec.WriteExecutable(uv, []byte("#!/bin/sh\necho $$ > "+uv+".pid\nexec sleep 600\n")); err != nil {
					t.Fatal(err)
				}
				h.env = append(h.env, "PATH="+bin+":"+os.Getenv("PATH"))
				cmd := h.command(t, "--with", "tiny", option, "1")
				var errs strings.Builder
				cmd.Stderr = &errs
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				pid := 0
				wait.Until(t, "the tool runs", func() bool {
					text, _ := os.ReadFile(uv + ".pid")
					pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
					return pid > 0
				})
				_ = cmd.Process.Signal(os.Interrupt)
				_ = cmd.Wait()
				if s := exitStatusOf(t, cmd); s != 130 || errs.String() != "" {
					t.Errorf("status %d, errors %q", s, errs.String())
				}
				waitGone(t, pid)
				h.wantNothingLeft(t)
			})
		}
	})

	t.Run("a model sees the progress and the failure", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{{"--with", "tiny"}, {"--with", "tiny", "--daemon"}} {
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				h, tool := withSlowInstaller(t, newDaemonHome(t))
				if slices.Contains(args, "--daemon") {
					h.startDaemon(t)
				}
				a := newAgent(t, h, args...)
				a.sendInput("import tiny; print(tiny.answer)")
				wantParts(t, a.readLineWith("tiny: Resolved 1 package"), `"progressToken":"token"`, "notifications/progress") // this line may not be the first
				tool.sendWord(t, "wrong")
				wantParts(t, a.readAnswer(), "tiny cannot be prepared: uv failed (exit status 1)\nResolved 1 package\nerror: no version of tiny is right\n[",
					"nothing was run. The next call tries again")
				a.sendInput("import tiny; print(tiny.answer)")
				tool.sendWord(t, "fine")
				if got, want := a.readAnswer(), "[tiny can be used in this session]\n42"; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if got := a.callRepl("tiny.answer + 1"); got != "43" {
					t.Errorf("got %q", got)
				}
				if n := len(tool.runPIDs()); n != 2 {
					t.Errorf("uv was run %d times", n)
				}
				_ = a.in.Close()
				_ = a.cmd.Wait()
			})
		}
	})

	t.Run("a client that leaves ends the preparation", func(t *testing.T) {
		t.Parallel()
		h, tool := withSlowInstaller(t, newDaemonHome(t))
		a := newAgent(t, h, "--with", "tiny")
		wait.Until(t, "the tool runs", func() bool { return len(tool.runPIDs()) > 0 }) // without a call
		_ = a.in.Close()
		_ = a.cmd.Wait()
		waitGone(t, tool.runPIDs()[0])
		h.wantNothingLeft(t)
	})

	t.Run("clients over HTTP share one preparation", func(t *testing.T) {
		t.Parallel()
		h, tool := withSlowInstaller(t, newDaemonHome(t))
		s := newHTTPServer(t, h, "--with", "tiny")
		var streams []io.ReadCloser
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			message, header := s.replCall(t, version, "import tiny; print(tiny.answer)")
			message = strings.Replace(message, `"_meta":{`, `"_meta":{"progressToken":"token",`, 1)
			message = strings.Replace(message, `"token",}`, `"token"}`, 1)
			response, err := s.send(message, header)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			streams = append(streams, response.Body)
		}
		for _, stream := range streams {
			readUntil(t, stream, "tiny: Resolved 1 package")
		}
		tool.sendWord(t, "fine")
		for _, stream := range streams {
			if got := readUntil(t, stream, `\n42`); !strings.Contains(got, `"text":"[tiny can be used in this session]`) {
				t.Errorf("got %q", got)
			}
		}
		if n := len(tool.runPIDs()); n != 1 {
			t.Errorf("uv was run %d times", n)
		}
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
		h.wantNothingLeft(t)
	})

	t.Run("needs a language for agents", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		wantResult(t, h.runRepl(t, "", "mcp", "--with", "numpy"),
			result{"", "repl: --with numpy: name the language of the packages with --lang\n", 2})
		wantResult(t, h.runRepl(t, "", "mcp", "--lang", "python", "--with", "-x"),
			result{"", "repl: --with: \"-x\" is not a Python requirement; write it as for pip, such as numpy or 'numpy>=2'\n", 2})
	})

	t.Run("a session of a daemon has the packages", func(t *testing.T) {
		t.Parallel()
		skipWithoutInstaller(t)
		h := withTinyPackage(t, newDaemonHome(t))
		daemon := h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "exec", "main", "--with", "tiny", "-e", "import tiny; print(tiny.answer)"), result{"42\n", newSessionNotice("main"), 0})
		wantResult(t, h.runRepl(t, "", "exec", "main", "--with", "Tiny", "-e", "tiny.answer + 1"), result{"43\n", "", 0})
		wantResult(t, h.runRepl(t, "", "exec", "main", "--with", "other", "-e", "1"),
			result{"", "repl: main already exists, without other; use another name, or run repl close main first\n", 1})
		if r := h.runRepl(t, "", "exec", "second", "--with", "nosuchthing", "-e", "1"); r.status != 1 || !strings.Contains(r.stderr, "nosuchthing cannot be prepared") {
			t.Errorf("an unknown package: %v", r)
		}
		wantResult(t, h.runRepl(t, "", "daemon", "stop"), result{"", "", 0})
		if _ = daemon.Wait(); daemon.ProcessState.ExitCode() != 0 {
			t.Errorf("the daemon: %v", daemon.ProcessState)
		}
		h.wantNothingLeft(t)
	})
}

// skipWithoutInstaller skips a test if nothing can install packages for Python.
func skipWithoutInstaller(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("uv"); err == nil {
		return
	}
	for _, module := range []string{"pip", "ensurepip"} {
		if exec.Command("python3", "-c", "import "+module).Run() == nil {
			return
		}
	}
	t.Skip("there is no uv, and python3 has neither pip nor ensurepip")
}

// A slowInstaller is a fake uv that waits until the test lets it continue.
type slowInstaller struct {
	dir string
}

// withSlowInstaller returns a home with a uv that prints a line, waits for a word, and then
// installs the package tiny, or fails.
func withSlowInstaller(t *testing.T, h home) (home, *slowInstaller) {
	t.Helper()
	tool := &slowInstaller{dir: t.TempDir()}
	if err := syscall.Mkfifo(filepath.Join(tool.dir, "word"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `#!/bin/sh
cd ` + tool.dir + `
echo $$ >> runs
echo "Resolved 1 package"
read word < word
while [ "$1" != --target ]; do shift; done
[ "$word" = fine ] || { echo "error: no version of tiny is right"; exit 1; }
echo "answer = 42" > "$2/tiny.py"
`
	if err := testexec.WriteExecutable(filepath.Join(tool.dir, "uv"), []byte(script)); err != nil {
		t.Fatal(err)
	}
	h.env = slices.Insert(h.env, len(h.env)-1, // the socket must stay last
		"XDG_CACHE_HOME="+t.TempDir(), "PATH="+tool.dir+":"+os.Getenv("PATH"))
	return h, tool
}

// sendWord lets a run of the tool continue.
func (s *slowInstaller) sendWord(t *testing.T, word string) {
	t.Helper()
	fifo, err := os.OpenFile(filepath.Join(s.dir, "word"), os.O_WRONLY, 0) // waits for a reader
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	if _, err := fifo.WriteString(word + "\n"); err != nil {
		t.Fatal(err)
	}
}

// runPIDs returns the process IDs of the tool, one for each run.
func (s *slowInstaller) runPIDs() (pids []int) {
	text, _ := os.ReadFile(filepath.Join(s.dir, "runs"))
	for _, word := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(word)
		pids = append(pids, pid)
	}
	return pids
}

func wantParts(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("got %q, want it to contain %q", got, part)
		}
	}
}
