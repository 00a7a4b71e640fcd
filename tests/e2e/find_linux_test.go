package e2e

import (
	"encoding/json"
	"errors"
	"github.com/turnstone-repl/turnstone/internal/testkit/owners"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// withLogin returns another login of the same user, with these variables.
func (h home) withLogin(set ...string) home {
	h.env = append(slices.Clone(h.env), append([]string{"TURNSTONE_SOCKET="}, set...)...)
	return h
}

// newFindHome returns a home whose path for temporary files is short enough for a socket.
func newFindHome(t *testing.T) home {
	t.Helper()
	h := newHome(t)
	tmp, _ := newLoginDir(t)
	h.env = append(h.env, "TMPDIR="+tmp)
	return h
}

// newLoginDir creates the runtime directory of a login.
func newLoginDir(t *testing.T) (dir, variable string) {
	t.Helper()
	dir = filepath.Dir(newSocketName(t)) // a short path
	return dir, "XDG_RUNTIME_DIR=" + dir
}

// newLogin returns a login without a daemon in its directory. Without its own directory it
// would use /run/user/UID, where a daemon of the user who runs the tests may listen.
func newLogin(t *testing.T, h home) home {
	t.Helper()
	_, variable := newLoginDir(t)
	return h.withLogin(variable)
}

// readRegistryEntry returns the entry in which the daemon names its socket, or "" if the directory
// has none.
func readRegistryEntry(t *testing.T, dir string) (path, socket string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "daemon-*.json"))
	if err != nil || len(found) != 1 {
		return "", ""
	}
	var e struct{ Socket string }
	text, err := os.ReadFile(found[0])
	if err != nil || json.Unmarshal(text, &e) != nil {
		return "", ""
	}
	return found[0], e.Socket
}

func (h home) stateDir() string { return filepath.Join(h.envValue("XDG_STATE_HOME"), "turnstone") }

func TestFindDaemon(t *testing.T) {
	t.Parallel()

	// A login by ssh, a job and cron each have different variables, or none.
	t.Run("one daemon serves all logins of a user", func(t *testing.T) {
		t.Parallel()
		h := newFindHome(t)
		_, first := newLoginDir(t)
		_, second := newLoginDir(t)
		desk := h.withLogin(first)
		daemon := desk.startDaemon(t)
		wantResult(t, desk.runRepl(t, "", "exec", "keep", "-e", "x = 41"), result{"", newSessionNotice("keep"), 0})
		for name, other := range map[string]home{
			"another directory of the login": h.withLogin(second),
			"no directory":                   h.withLogin("XDG_RUNTIME_DIR="),
			"a directory of another machine": h.withLogin("XDG_RUNTIME_DIR=/run/user/4242"),
			"another temporary directory":    h.withLogin("XDG_RUNTIME_DIR=", "TMPDIR="+t.TempDir()),
		} {
			wantResult(t, other.runRepl(t, "", "exec", "keep", "-e", "x + 1"), result{"42\n", "", 0})
			if r := other.runRepl(t, "", "serve"); r.status != 3 || !strings.Contains(r.stderr, "already served") {
				t.Errorf("%s: a second daemon: %v", name, r)
			}
		}
		if err := stopProgram(daemon); err != nil {
			t.Fatal(err)
		}
		_ = daemon.Wait()
		if path, _ := readRegistryEntry(t, h.stateDir()); path != "" {
			t.Errorf("the entry is left behind: %s", path)
		}
	})

	// The directory cannot be recreated before the next login, which gets another one.
	t.Run("a daemon moves when its directory cannot be recreated", func(t *testing.T) {
		t.Parallel()
		h := newFindHome(t)
		dir, variable := newLoginDir(t)
		desk := h.withLogin(variable)
		desk.startDaemon(t)
		wantResult(t, desk.runRepl(t, "", "exec", "keep", "-e", "x = 41"), result{"", newSessionNotice("keep"), 0})
		if err := os.Rename(dir, dir+".gone"); err != nil { // the parent directory may be removed, too
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir + ".gone") })
		wait.Until(t, "nothing can be created there", func() bool { // while the daemon tries
			return os.RemoveAll(dir) == nil && os.WriteFile(dir, nil, 0o600) == nil
		})
		for _, login := range []home{desk, newLogin(t, h)} {
			wait.Until(t, "the daemon is found", func() bool { return login.runRepl(t, "", "list").status == 0 })
			wantResult(t, login.runRepl(t, "", "exec", "keep", "-e", "x + 1"), result{"42\n", "", 0})
		}
		if _, socket := readRegistryEntry(t, h.stateDir()); strings.HasPrefix(socket, dir) {
			t.Errorf("the reported socket of the daemon is %s", socket)
		}
	})

	t.Run("a daemon restores files that were removed", func(t *testing.T) {
		t.Parallel()
		h := newFindHome(t)
		dir, variable := newLoginDir(t)
		desk := h.withLogin(variable)
		desk.startDaemon(t)
		wait.Until(t, "the entry exists", func() bool { path, _ := readRegistryEntry(t, h.stateDir()); return path != "" })
		path, _ := readRegistryEntry(t, h.stateDir())
		other := newLogin(t, h)
		for _, remove := range []func() error{
			func() error { return os.Rename(path, path+".gone") },
			func() error { return os.RemoveAll(h.stateDir()) },
			func() error { return os.RemoveAll(dir) },
		} {
			wait.Until(t, "the files are removed", func() bool { return remove() == nil }) // while the daemon recreates it
			wait.Until(t, "the entry exists again", func() bool { path, _ := readRegistryEntry(t, h.stateDir()); return path != "" })
			wait.Until(t, "the daemon answers", func() bool { return other.runRepl(t, "", "list").status == 0 })
		}
	})

	// A daemon that does not react at the moment does not count as dead.
	t.Run("an unreachable daemon is named and not replaced", func(t *testing.T) {
		t.Parallel()
		h := newFindHome(t)
		dir, variable := newLoginDir(t)
		desk := h.withLogin(variable)
		daemon := desk.startDaemon(t)
		wantResult(t, desk.runRepl(t, "", "exec", "keep", "-e", "x = 41"), result{"", newSessionNotice("keep"), 0})
		stopped := daemon.Process
		freeze(t, stopped)
		if err := os.RemoveAll(filepath.Join(dir, "turnstone")); err != nil {
			t.Fatal(err)
		}
		named := "process " + strconv.Itoa(stopped.Pid)
		if r := desk.runRepl(t, "", "list"); r.status != 3 || !strings.Contains(r.stderr, named) {
			t.Errorf("while it cannot be reached: %v", r)
		}
		if r := desk.runRepl(t, "", "serve"); r.status != 3 || !strings.Contains(r.stderr, named) {
			t.Errorf("a second daemon: %v", r)
		}
		if err := stopped.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the daemon is found", func() bool { return desk.runRepl(t, "", "list").status == 0 })
		wantResult(t, desk.runRepl(t, "", "exec", "keep", "-e", "x + 1"), result{"42\n", "", 0})
	})

	t.Run("one of many simultaneous starts serves", func(t *testing.T) {
		t.Parallel()
		h := newFindHome(t)
		const starts = 6
		ended := make(chan error, starts)
		var all []*exec.Cmd
		for range starts {
			_, variable := newLoginDir(t)
			cmd := h.withLogin(variable).command(t, "serve")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			all = append(all, cmd)
			go func() { ended <- cmd.Wait() }()
		}
		for range starts - 1 {
			if err := <-ended; exitCodeOf(err) != 3 {
				t.Errorf("a daemon that started late ended with %v", err)
			}
		}
		other := newLogin(t, h)
		wait.Until(t, "the remaining daemon serves", func() bool { return other.runRepl(t, "", "list").status == 0 })
		for _, cmd := range all {
			_ = stopProgram(cmd)
		}
		<-ended
	})

	// A killed daemon leaves its entry and its socket.
	t.Run("the entry of a dead daemon is ignored", func(t *testing.T) {
		t.Parallel()
		h := newFindHome(t)
		_, first := newLoginDir(t)
		_, second := newLoginDir(t)
		killed := h.withLogin(first).startDaemon(t)
		_ = killed.Process.Kill()
		_ = killed.Wait()
		old, _ := readRegistryEntry(t, h.stateDir())
		if old == "" {
			t.Fatal("it left no entry")
		}
		if r := h.withLogin(first).runRepl(t, "", "list"); r.status != 3 {
			t.Errorf("without a daemon: %v", r)
		}
		h.withLogin(second).startDaemon(t)
		if r := h.withLogin(first).runRepl(t, "", "list"); r.status != 0 {
			t.Errorf("with the next one: %v", r)
		}
		if path, _ := readRegistryEntry(t, h.stateDir()); path != old {
			t.Errorf("the entry is %s, not %s", path, old)
		}
	})

	// By now, the process number may belong to another process.
	t.Run("an entry with a reused process number is ignored", func(t *testing.T) {
		t.Parallel()
		h := newFindHome(t)
		_, variable := newLoginDir(t)
		login := h.withLogin(variable)
		daemon := login.startDaemon(t)
		path, _ := readRegistryEntry(t, h.stateDir())
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_ = stopProgram(daemon)
		_ = daemon.Wait()
		var e map[string]any
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		e["pid"] = os.Getpid()
		text, _ = json.Marshal(e)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		login.startDaemon(t)
		if r := login.runRepl(t, "", "list"); r.status != 0 {
			t.Errorf("got %v", r)
		}
	})

	t.Run("files of others are ignored and left alone", func(t *testing.T) {
		t.Parallel()
		type world struct{ run, tmp, state string }
		ownDir := func(w world) string { return filepath.Join(w.tmp, "turnstone-"+strconv.Itoa(os.Getuid())) }
		for name, plant := range map[string]func(t *testing.T, w world) error{
			"a link instead of a directory": func(_ *testing.T, w world) error { return os.Symlink(w.run, ownDir(w)) },
			"a file instead of a directory": func(_ *testing.T, w world) error { return os.WriteFile(ownDir(w), nil, 0o600) },
			"a directory that all can write": func(_ *testing.T, w world) error {
				return errors.Join(os.Mkdir(ownDir(w), 0o700), os.Chmod(ownDir(w), 0o777))
			},
			"another user's directory": func(t *testing.T, w world) error {
				err := os.Mkdir(ownDir(w), 0o700)
				owners.GiveAway(t, ownDir(w))
				return err
			},
			"no state directory": func(_ *testing.T, w world) error {
				return os.WriteFile(filepath.Join(w.state, "turnstone"), nil, 0o600)
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run, variable := newLoginDir(t)
				tmp, _ := newLoginDir(t)
				state, _ := newLoginDir(t)
				w := world{run, tmp, state}
				if err := os.WriteFile(filepath.Join(run, "turnstone"), nil, 0o600); err != nil { // so that no daemon can listen there
					t.Fatal(err)
				}
				if err := plant(t, w); err != nil {
					t.Fatal(err)
				}
				before := listFiles(t, w.run, w.tmp)
				login := newHome(t).withLogin(variable, "TMPDIR="+tmp, "XDG_STATE_HOME="+state)
				daemon := login.startDaemon(t, "--session-dir", filepath.Join(state, "sessions"))
				wantResult(t, login.runRepl(t, "", "exec", "keep", "-e", "6 * 7"), result{"42\n", newSessionNotice("keep"), 0})
				if r := login.runRepl(t, "", "serve"); r.status != 3 {
					t.Errorf("a second daemon: %v", r)
				}
				_ = stopProgram(daemon)
				_ = daemon.Wait()
				if after := listFiles(t, w.run, w.tmp); name != "no state directory" && !slices.Equal(before, after) {
					t.Errorf("there were %q, and now %q", before, after)
				}
			})
		}
	})

	// The directory of an ssh login is removed at the logout.
	t.Run("bridge starts a daemon outside the login directory", func(t *testing.T) {
		t.Parallel()
		h := newFindHome(t)
		dir, variable := newLoginDir(t)
		login := h.withLogin(variable)
		defer login.runRepl(t, "", "daemon", "stop") // a cleanup runs after the context of commands has ended
		greeted := login.runRepl(t, "", "bridge")
		if greeted.status != 0 {
			t.Fatalf("dial: %v", greeted)
		}
		_, socket := readRegistryEntry(t, h.stateDir())
		if socket == "" || strings.HasPrefix(socket, dir) || !strings.Contains(greeted.stdout, `"`+socket+`"`) {
			t.Errorf("the daemon is at %q, and was greeted with %s", socket, greeted.stdout)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		wantResult(t, newLogin(t, h).runRepl(t, "", "exec", "keep", "-e", "6 * 7"), result{"42\n", newSessionNotice("keep"), 0})
	})

	// A daemon would end with the step, or escape the job's limits.
	t.Run("a step of a Slurm job uses a daemon and starts none", func(t *testing.T) {
		t.Parallel()
		h := newFindHome(t)
		_, variable := newLoginDir(t)
		node := h.withLogin(variable)
		step := node.withLogin("SLURM_JOB_ID=17", "SLURMD_NODENAME=n1")
		for _, flags := range [][]string{{"bridge"}, {"bridge", "--login-env"}} {
			r := step.runRepl(t, "", flags...)
			if r.status == 0 || !strings.Contains(r.stderr, "this is a step of a Slurm job") || !strings.Contains(r.stderr, "job 17 on n1 itself run repl serve") {
				t.Errorf("%q: %v", flags, r)
			}
		}
		if r := node.runRepl(t, "", "list"); r.status != 3 {
			t.Errorf("a daemon runs: %v", r)
		}
		step.startDaemon(t) // the job itself
		if r := step.runRepl(t, "", "bridge"); r.status != 0 {
			t.Errorf("with a daemon: %v", r)
		}
	})
}

func exitCodeOf(err error) int {
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	return 0
}

// listFiles returns the names of the files in directories.
func listFiles(t *testing.T, dirs ...string) (names []string) {
	t.Helper()
	for _, dir := range dirs {
		inside, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range inside {
			names = append(names, f.Name())
		}
	}
	return names
}
