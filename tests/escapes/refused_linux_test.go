package escapes

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/timeline"
)

// runTry runs this program to try a sandbox, from a shell that may prepare something first.
func (m *machine) runTry(t *testing.T, prepare string, attributes *syscall.SysProcAttr) string {
	t.Helper()
	program := testexec.OwnPath()
	cmd := exec.Command("sh", "-c", prepare+` && exec "$0"`, program)
	cmd.Env = append(m.env, tryEnv+"="+m.work)
	cmd.SysProcAttr = attributes
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestTrySandbox(t *testing.T) {
	t.Parallel()

	t.Run("starts one and reports its limits", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		got := m.runTry(t, "true", nil)
		if !strings.HasPrefix(got, "started: sandbox workspace: it writes "+m.work) || !strings.Contains(got, "ESCAPES_API_KEY") {
			t.Errorf("got %q, want the limits of the sandbox", got)
		}
	})

	// Without user namespaces, a session is refused with one sentence that contains a hint. Nothing
	// runs without a sandbox instead.
	t.Run("refuses without user namespaces", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		got := m.runTry(t, "echo 0 >/proc/sys/user/max_user_namespaces", rootAttributes())
		for _, want := range []string{"refused: ", "sandbox: user namespace", "an administrator can", "sysctl user.max_user_namespaces", "the sandbox full"} {
			if !strings.Contains(got, want) {
				t.Errorf("got %q, want %q in it", got, want)
			}
		}
	})

	t.Run("refuses inside a sandbox", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		program := testexec.OwnPath()
		got := r.RunCode(t, "r = subprocess.run(['"+program+"'], env=dict(__import__('os').environ, "+tryEnv+"='"+m.work+"'), capture_output=True, text=True); print(r.stdout + r.stderr)").OutputText(timeline.Stdout, timeline.Stderr)
		if !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, "sandbox: user namespace: operation not permitted") {
			t.Errorf("got %q, want a refusal at its first step", got)
		}
	})

	// Directories that cannot have an overlay are read-only, and the session says so. Here the
	// files of sessions are on a filesystem that does not support overlays.
	t.Run("reports a directory that takes no overlay", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		sandboxcheck.RequireLayers(t, m.base) // to make a filesystem without overlays
		attributes := rootAttributes()
		attributes.Cloneflags |= syscall.CLONE_NEWNS
		got := m.runTry(t, `mkdir -p "$HOME/o/u" "$HOME/o/w" "$HOME/o/m" &&
		mount -t overlay -o "userxattr,lowerdir=$HOME/mine,upperdir=$HOME/o/u,workdir=$HOME/o/w" o "$HOME/o/m" && export TMPDIR="$HOME/o/m"`, attributes)
		if !strings.HasPrefix(got, "started: ") || !strings.Contains(got, "read-only for this session: its filesystem does not allow overlays") {
			t.Errorf("got %q, want a start with a notice", got)
		}
	})
}

// rootAttributes are the attributes of a process that is root in a user namespace.
func rootAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
}
