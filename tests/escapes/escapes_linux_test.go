package escapes

import (
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

//go:embed probes.py
var probes string

// interpreter is a Python that every user may run.
const interpreter = "/usr/bin/python3"

// newHint returns the command that a hint suggests to the user.
func newHint(name, _ string, g session.Grant) string {
	if g.Read != "" {
		return "repl grant " + name + " --read " + g.Read
	}
	return "repl grant " + name + " --write " + g.Write
}

// openSession starts a Python session on a machine, and defines the function that runs one probe in
// it.
func openSession(t testing.TB, m *machine, policy *sandbox.Policy) *sessionkit.TestSession {
	t.Helper()
	spec := python.Spec(python.Options{Path: interpreter})
	spec.Dir, spec.Sandbox = m.work, policy
	r := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: m.sessions, Env: m.env, GrantHint: newHint}, spec)
	r.WaitUntilReady(t)
	r.RunCode(t, `
import json, subprocess, sys
probes = subprocess.Popen([sys.executable, "probes.py", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def probe(name):
    probes.stdin.write(name + "\n"); probes.stdin.flush()
    print(json.loads(probes.stdout.readline()))
`)
	return r
}

func newSandbox(m *machine) *sandbox.Policy {
	return &sandbox.Policy{
		Level: sandbox.Workspace, Workspace: m.work, Network: sandbox.NetworkNone,
		Writable: []string{m.named}, Hidden: []string{filepath.Join(m.home, "mine")},
	}
}

type probeList struct {
	Escapes, Ordinary []string
	Needs             map[string]string
}

func readProbeList(t *testing.T, m *machine) (l probeList) {
	t.Helper()
	cmd := exec.Command(interpreter, filepath.Join(m.work, "probes.py"), "list")
	cmd.Env = m.env
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &l)
	}
	if err != nil || len(l.Escapes) < 90 || len(l.Ordinary) < 50 {
		t.Fatalf("the list of probes: %v, %d escapes, %d ordinary things", err, len(l.Escapes), len(l.Ordinary))
	}
	return l
}

func TestSandbox(t *testing.T) {
	t.Parallel()

	t.Run("stops each escape", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		l := readProbeList(t, m)
		r := openSession(t, m, newSandbox(m))
		before := m.readState(t)
		for _, name := range l.Escapes {
			t.Run(name, func(t *testing.T) {
				output := r.RunCode(t, "probe('"+name+"')").OutputText(timeline.Stdout, timeline.Stderr)
				if !strings.HasPrefix(output, "held: ") {
					t.Errorf("got %q, want it held", output)
				}
				if strings.Contains(output, secret) {
					t.Errorf("the session saw a secret: %q", output)
				}
				before = m.wantUnchanged(t, before)
			})
		}
	})

	t.Run("leaves ordinary things working", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		l := readProbeList(t, m)
		r := openSession(t, m, newSandbox(m))
		before := m.readState(t)
		for _, name := range l.Ordinary {
			t.Run(name, func(t *testing.T) {
				m.requireTools(t, l.Needs[name])
				if output := r.RunCode(t, "probe('"+name+"')").OutputText(timeline.Stdout, timeline.Stderr); strings.TrimSpace(output) != "works" {
					t.Errorf("got %s", output)
				}
				m.wantUnchanged(t, before)
			})
		}
		if text := readText(filepath.Join(m.named, "made-inside")); text != "x" {
			t.Errorf("got %q in a writable directory, want the text that the session wrote", text)
		}
	})

	// The probes must be able to fail: without a sandbox these succeed.
	t.Run("the probes succeed without it", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, &sandbox.Policy{Level: sandbox.Full})
		for _, name := range []string{
			"read_key", "read_credentials", "read_by_a_symlink", "read_in_a_layer", "environment_of_a_process_outside", "see_a_process_outside", "secret_in_the_environment",
			"state_of_other_sessions", "write_home", "write_by_a_symlink_out", "write_git_hook", "write_submodule_hook", "write_nested_hook", "rename_git_info", "write_hooks_path",
			"abstract_socket_of_the_machine", "socket_in_home", "socket_by_a_symlink", "socket_by_a_relative_path", "datagram_socket", "datagram_by_a_pair", "datagram_by_a_raw_socket", "datagram_by_a_raw_pair", "socket_seqpacket",
			"socket_race", "loopback_tcp", "sysv_memory", "posix_memory", "user_namespace_by_unshare",
			"keys_of_the_user", "sysv_queues", "sysv_semaphores", "posix_queue", "socket_in_tmp", "bus_of_the_user", "own_daemon", "cookie_in_the_runtime_directory",
			"every_protocol_to_the_loopback_of_the_machine", "write_hooks_of_husky", "write_settings_of_hooks", "write_program_of_a_filter", "make_settings_of_other_agents",
			"profile_of_r", "read_by_the_root_of_any_process", "namespaces_by_unshare", "filter_that_answers_calls", "socket_after_a_rename",
		} {
			t.Run(name, func(t *testing.T) {
				if output := r.RunCode(t, "probe('"+name+"')").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "open: ") {
					t.Errorf("got %q, want the probe to succeed", output)
				}
			})
		}
	})

	// Sessions without a sandbox run code from the caches of this program.
	t.Run("keeps the caches of repl unchanged if they are writable", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		box := newSandbox(m)
		box.Writable = append(box.Writable, filepath.Join(m.home, ".cache"))
		box.AcceptPaths = box.Writable
		own := filepath.Join(m.work, ".caches") // a variable of the user may name this directory
		m.env = append(m.env, "XDG_STATE_HOME="+filepath.Join(m.work, ".state"))
		writeFile(t, filepath.Join(m.work, ".state/turnstone/history-python"), secret)
		for _, c := range []struct{ name, cache string }{{"named to be written", filepath.Join(m.home, ".cache")}, {"in the workspace", own}, {"not there yet", filepath.Join(m.work, ".later")}} {
			t.Run(c.name, func(t *testing.T) {
				if c.cache == own {
					writeFile(t, filepath.Join(own, "turnstone/python/worker"), "kept")
				}
				if c.cache != filepath.Join(m.home, ".cache") {
					m.env = append(m.env, "XDG_CACHE_HOME="+c.cache)
				}
				if err := os.MkdirAll(c.cache, 0o755); err != nil {
					t.Fatal(err)
				}
				r := openSession(t, m, box)
				wantOutput(t, r, `
import os
def tries(do):
    try: do()
    except OSError as e: return 'refused'
    return 'got out'
C = `+strconv.Quote(c.cache)+`
print(tries(lambda: open(C + '/mine', 'w')),
      tries(lambda: os.makedirs(C + '/turnstone/python/new')),
      tries(lambda: os.rename(C + '/turnstone', C + '/away')),
      tries(lambda: open(C + '/turnstone/python/worker', 'a')),
      tries(lambda: open('.state/turnstone/history-python')))
`, "got out refused refused refused refused")
			})
		}
	})

	t.Run("writes nothing at the read-only level", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		sandboxcheck.RequireLayers(t, m.base) // the probe writes a cache
		r := openSession(t, m, &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone})
		before := m.readState(t)
		for _, name := range []string{"write_workspace", "git_commit", "write_named_directory"} {
			if output := r.RunCode(t, "probe('"+name+"')").OutputText(timeline.Stdout, timeline.Stderr); !strings.Contains(output, "Read-only file system") {
				t.Errorf("%s: got %q, want a read-only file system", name, output)
			}
		}
		for _, name := range []string{"tmp_by_name", "write_cache", "local_tcp", "git_status"} {
			if output := r.RunCode(t, "probe('"+name+"')").OutputText(timeline.Stdout, timeline.Stderr); strings.TrimSpace(output) != "works" {
				t.Errorf("%s: got %s", name, output)
			}
		}
		m.wantUnchanged(t, before)
	})
}

// wantUnchanged compares the state of the machine with an earlier one, and returns it.
func (m *machine) wantUnchanged(t *testing.T, before map[string]string) map[string]string {
	t.Helper()
	now := m.readState(t)
	for path, was := range before {
		if now[path] != was {
			t.Errorf("outside, %s changed: %.200q, was %.200q", path, now[path], was)
		}
	}
	for path, is := range now {
		if _, ok := before[path]; !ok {
			t.Errorf("outside, %s is new: %.200q", path, is)
		}
	}
	delete(now, "reached")
	return now
}

// requireTools skips a test if one of these is missing: a program, "python:MODULE" for a module of
// the interpreter, or "layer" for an overlay over the home directory. Of "one|other", either is
// enough.
func (m *machine) requireTools(t *testing.T, needs string) {
	t.Helper()
	for need := range strings.FieldsSeq(needs) {
		var lacks string
		for way := range strings.SplitSeq(need, "|") {
			if lacks = m.missingTool(way); lacks == "" {
				break
			}
		}
		if lacks != "" {
			t.Skip(lacks)
		}
	}
}

func (m *machine) missingTool(need string) string {
	if need == "layer" {
		if os.Getenv(noNamespacesEnv) != "" {
			return "" // Landlock uses no overlays
		}
		return sandboxcheck.WhyNoLayers(m.base)
	}
	if module, ok := strings.CutPrefix(need, "python:"); ok {
		if exec.Command(interpreter, "-c", "import "+module).Run() != nil {
			return interpreter + " has no module " + module
		}
		return ""
	}
	if _, err := exec.LookPath(need); err != nil {
		return need + " is not installed"
	}
	return ""
}
