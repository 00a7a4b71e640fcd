package escapes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/testkit/networks"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// noNamespacesEnv is set in a process that cannot create user namespaces.
const noNamespacesEnv = "ESCAPES_WITHOUT_NAMESPACES"

// forbidNamespaces forbids user namespaces below this one, gives up the right to allow them again,
// and executes this program again.
func forbidNamespaces() error {
	namespaces, err := os.OpenFile("/proc/sys/user/max_user_namespaces", os.O_WRONLY, 0) // the file cannot be truncated
	if err == nil {
		_, err = namespaces.WriteString("0")
	}
	if err != nil {
		return err
	}
	if err := networks.BringUp("lo"); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	if err := os.Setenv(noNamespacesEnv, "yes"); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// runWithoutNamespaces runs the calling test again in a process that cannot create user namespaces.
// It reports whether this is that process.
func runWithoutNamespaces(t *testing.T) bool {
	t.Helper()
	return sandboxcheck.RerunInNamespaces(t, noNamespacesEnv+"=prepare", unix.CLONE_NEWNET, unix.CAP_SYS_RESOURCE, unix.CAP_NET_ADMIN)
}

func newLandlockSandbox(m *machine) *sandbox.Policy {
	s := newSandbox(m)
	s.AcceptMechanism = sandbox.Landlock
	return s
}

// landlockEscapes are the escapes that succeed in a Landlock session, as its first notice says.
var landlockEscapes = []string{
	// Files in the workspace that programs outside run or trust.
	"write_git_hook", "change_git_hook", "write_git_config", "write_git_config_by_git", "write_git_attributes", "write_submodule_hook", "write_submodule_config",
	"write_deep_submodule_hook", "change_submodule_pointer", "write_hooks_path", "rename_git", "write_nested_hook", "rename_parent_of_nested_repository",
	"rename_grandparent_of_nested_repository", "write_editor_settings", "write_mcp_settings",
	"write_through_a_hard_link_of_a_setting", "write_through_a_hard_link_of_a_hook", "write_a_hook_by_its_descriptor", "write_hooks_of_husky", "write_settings_of_hooks",
	"write_program_of_a_filter", "replace_program_of_a_filter", "rename_directory_of_a_filter", "make_editor_settings", "make_direnv_settings", "make_settings_of_other_agents",
	"write_nested_editor_settings", "exchange_editor_settings", "bare_repository_in_place_of_a_repository", "bare_repository_in_place_of_a_nested_one",
	"repository_above_a_nested_one", "make_settings_of_mercurial",
	"whiteout_in_place_of_a_hook", "exchange_hooks", "nameless_file_by_its_descriptor", "hook_by_a_directory_of_another_process",
	"exchange_of_a_path_in_shared_memory", "exchange_of_a_path_by_another_process",
	// A share of the resources that the kernel counts for the user.
	"watchers_of_the_user",
	// Facts about files, including hidden ones, names of keys, and process IDs.
	"size_of_a_key", "size_of_a_login", "watch_keys",
	"chmod", "utime", "setxattr", "chattr", "keys_of_the_user", "see_a_process_outside", "signal_everything", "pidfd_outside",
	// Only a capability could empty the bounding set; no new capabilities can be gained.
	"capabilities",
	listenerEscape,
}

// containerEscapes succeed where process 1 belongs to the user. The numbers of its descriptors are
// no secret among the processes of a user, and the files behind them are protected.
var containerEscapes = []string{"descriptors_of_process_1", "files_of_the_threads_of_process_1"}

// listenerEscape succeeds in sessions without a listener, which a second one could imitate.
// Refusals matter more than its answers.
const listenerEscape = "filter_that_answers_calls"

// landlockOrdinary are the ordinary things that work in such a session. The others need sockets,
// terminals, shared memory, a private /tmp or copies of caches.
var landlockOrdinary = []string{
	"memfd_and_exec", "socketpair", "git_status", "git_commit", "git_branch_and_gc", "git_stash", "git_init_and_clone", "git_in_a_nested_repository", "write_workspace", "write_named_directory", "read_home", "numpy_threads", "locale_and_zone", "certificates", "tty_and_stty", "debugger", "processes_are_seen", "cpuinfo", "own_number", "sqlite", "inotify", "threads", "sudo_fails_fast", "preload", "r_mclapply", "r_install_with_a_compiler",
}

func TestLandlock_Escapes(t *testing.T) {
	if !runWithoutNamespaces(t) {
		return
	}
	info, err := os.Stat("/proc/1")
	if err != nil {
		t.Fatal(err)
	}
	first := int(info.Sys().(*syscall.Stat_t).Uid) == os.Getuid()
	for _, network := range []sandbox.NetworkAccess{sandbox.NetworkNone, sandbox.NetworkList} {
		t.Run(string(network), func(t *testing.T) {
			m := newMachine(t)
			l := readProbeList(t, m)
			box := newLandlockSandbox(m)
			box.Network = network
			r := openSession(t, m, box)
			for _, name := range l.Escapes {
				before := m.readState(t)
				output := r.RunCode(t, "probe('"+name+"')").OutputText(timeline.Stdout, timeline.Stderr)
				if first && slices.Contains(containerEscapes, name) && strings.HasPrefix(output, "open: ") && !strings.Contains(output, secret) {
					continue
				}
				if slices.Contains(landlockEscapes, name) && (name != listenerEscape || network == sandbox.NetworkNone) {
					if !strings.HasPrefix(output, "open: ") {
						t.Errorf("%s: got %q, want it open, as documented", name, output)
					}
					continue
				}
				if !strings.HasPrefix(output, "held: ") || strings.Contains(output, secret) {
					t.Errorf("%s: got %q, want it held", name, output)
				}
				m.wantUnchanged(t, before)
			}
		})
	}
}

// Git settings are rewritten without mounts as well. The session owns their directory, and may make
// a link there.
func TestLandlock_RewritesSettings(t *testing.T) {
	if !runWithoutNamespaces(t) {
		return
	}
	m := newMachine(t)
	r := openSession(t, m, newLandlockSandbox(m))
	r.RunCode(t, atHomeCode+"own = os.environ['GIT_CONFIG_GLOBAL']")
	m.runSteps(t, r, []turnStep{
		{"at first", "true", "print(git('user.name'))", ""},
		{"one that comes", "git config --global user.name Ada && git config --global credential.helper \"!echo $SECRET\"", "print(git('user.name'), git('credential.helper'))", "Ada"},
		{"one that changes", "git config --global user.name Grace", "print(git('user.name'))", "Grace"},
		{"a link in its place", "true", "os.unlink(own); os.symlink(os.path.expanduser('~/note.txt'), own)", ""},
		{"is not followed", "git config --global user.name Ada", "print(git('user.name'), os.path.islink(own), readable('note.txt'))", "Ada False open: a note"},
		{"a directory in its place", "true", "os.unlink(own); os.mkdir(own)", ""},
		{"goes", "git config --global user.name Grace", "print(git('user.name'))", "Grace"},
		{"one that goes", "rm .gitconfig", "print(git('user.name'), os.path.exists(own))", "False"},
	})
	if got := readText(filepath.Join(m.home, "note.txt")); got != "a note" {
		t.Errorf("the target of the link is %q", got)
	}
}

func TestLandlock_OrdinaryThings(t *testing.T) {
	if !runWithoutNamespaces(t) {
		return
	}
	m := newMachine(t)
	l := readProbeList(t, m)
	r := openSession(t, m, newLandlockSandbox(m))
	for _, name := range landlockOrdinary {
		t.Run(name, func(t *testing.T) {
			m.requireTools(t, l.Needs[name])
			if output := r.RunCode(t, "probe('"+name+"')").OutputText(timeline.Stdout, timeline.Stderr); strings.TrimSpace(output) != "works" {
				t.Errorf("got %s", output)
			}
		})
	}
}

// Without namespaces, a session is refused unless its user accepts Landlock. A Landlock session
// reports what it does not enforce, in its first reply and in its session info.
func TestLandlock_OnlyIfAccepted(t *testing.T) {
	if !runWithoutNamespaces(t) {
		return
	}
	m := newMachine(t)
	sup, err := supervisor.New(&supervisor.Options{Dir: m.sessions, Env: m.env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	if _, err := sup.TrySandbox(t.Context(), newSandbox(m), m.work); err == nil || !strings.Contains(err.Error(), "accepting landlock") {
		t.Errorf("not accepted: got %v, want a refusal that names the flag", err)
	}
	notices, err := sup.TrySandbox(t.Context(), newLandlockSandbox(m), m.work)
	if err != nil || len(notices) < 2 || !strings.HasPrefix(notices[1], "confined by Landlock, which is weaker") {
		t.Errorf("accepted: got %q, %v, want a notice about missing enforcement", notices, err)
	}
	listed := newLandlockSandbox(m)
	listed.Network, listed.Hosts = sandbox.NetworkList, []string{"example.org"}
	if notices, err := sup.TrySandbox(t.Context(), listed, m.work); err != nil || len(notices) < 2 || !strings.Contains(notices[1], "reaches hosts only through the proxy") {
		t.Errorf("with hosts: got %q, %v, want how hosts are reached", notices, err)
	}
	inside := newLandlockSandbox(m)
	inside.Hidden = []string{filepath.Join(m.work, "vendor")}
	if _, err := sup.TrySandbox(t.Context(), inside, m.work); err == nil || !strings.Contains(err.Error(), "a Landlock sandbox cannot hide "+inside.Hidden[0]) {
		t.Errorf("with a secret in the workspace: got %v, want a refusal", err)
	}
	r := openSession(t, m, newLandlockSandbox(m))
	if got := sessionkit.SessionInfo(r); got.AcceptedMechanism != "landlock" || !strings.HasSuffix(got.Confinement(), "(enforced by landlock only)") {
		t.Errorf("got %q, %q", got.AcceptedMechanism, got.Confinement())
	}
	if err := r.Session.Allow(t.Context(), session.Grant{Write: m.outside}); session.KindOf(err) != session.KindUnsupported {
		t.Errorf("a grant: got %v, want an error about a running session", err)
	}
}

// Where namespaces are available, they are used even for a user who accepts less.
func TestLandlock_PrefersNamespaces(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	r := openSession(t, m, newLandlockSandbox(m))
	if got := sessionkit.SessionInfo(r); got.AcceptedMechanism != "" || got.Sandbox == "" {
		t.Errorf("got %+v", got)
	}
	if output := r.RunCode(t, "probe('write_git_hook')").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "held: ") {
		t.Errorf("got %q", output)
	}
}

// Landlock sessions show the same paths that the user names.
func TestLandlock_ShowsNamedPaths(t *testing.T) {
	if !runWithoutNamespaces(t) {
		return
	}
	m := newMachine(t)
	for _, name := range []string{".data/deep/table", ".data/other", ".notes", "written"} {
		writeFile(t, filepath.Join(m.home, name), "old")
	}
	box := newLandlockSandbox(m)
	box.Home = sandbox.HomeTools
	box.Readable = []string{filepath.Join(m.home, ".data/deep"), filepath.Join(m.home, ".notes")}
	box.Writable = append(box.Writable, filepath.Join(m.home, "written"))
	r := openSession(t, m, box)
	r.RunCode(t, changeCode+"import os; os.chdir(os.environ['HOME'])")
	for _, c := range []struct{ code, want string }{
		{"readable('.data/deep/table')", "open: old"},
		{"readable('.data/other')", "held: [Errno 13] Permission denied: '.data/other'"},
		{"readable('.notes')", "open: old"},
		{"writes('.notes')", "held: Permission denied"},
		{"readable('note.txt')", "held: [Errno 13] Permission denied: 'note.txt'"},
		{"writes('written')", "written"},
	} {
		wantOutput(t, r, "print("+c.code+")", c.want)
	}
	if shown, err := r.Session.Visibility(t.Context()); err != nil || shown.Home != m.home || len(shown.Paths) == 0 {
		t.Errorf("got %+v, %v", shown, err)
	}
}
