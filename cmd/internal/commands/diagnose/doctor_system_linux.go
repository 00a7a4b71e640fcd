package diagnose

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

// examineSystem lists the features of this system on which sandboxes and limits depend.
func examineSystem(ctx context.Context) []systemFeature {
	return []systemFeature{examineSandbox(ctx), examineCgroups(), examineLandlock(), examineUserNamespaces(ctx), examineSeccomp(), examineResourceLimits()}
}

// examineCgroups checks for a version 2 cgroup that this user may divide. Limits on memory,
// processes and CPU for a whole process tree need such a cgroup.
func examineCgroups() systemFeature {
	f := systemFeature{Name: "control groups"}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	own := ""
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = path
		}
	}
	dir := filepath.Join("/sys/fs/cgroup", own)
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		f.Detail = "version 2 is not mounted, or not visible to this process"
		return f
	}
	available := strings.Join(strings.Fields(string(controllers)), " ")
	if available == "" {
		available = "no controllers"
	}
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if unix.Access(filepath.Join(dir, name), unix.W_OK) != nil {
			if services := userdirs.Runtime(os.Getenv); services != "" {
				if _, err := os.Stat(filepath.Join(services, "bus")); err == nil {
					f.Available, f.Detail = true, "version 2, delegated by this user's service manager"
					return f
				}
			}
			f.Detail = fmt.Sprintf("version 2 at %s (%s), but not delegated to this user", own, available)
			return f
		}
	}
	f.Available = available != "no controllers"
	f.Detail = fmt.Sprintf("version 2, delegated at %s (%s)", own, available)
	return f
}

// examineLandlock checks for Landlock, which confines the files and ports of a process without
// privileges.
func examineLandlock() systemFeature {
	const versionFlag = 1 // LANDLOCK_CREATE_RULESET_VERSION
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, versionFlag)
	if errno != 0 {
		return systemFeature{Name: "Landlock", Detail: errno.Error()}
	}
	return systemFeature{Name: "Landlock", Available: true, Detail: fmt.Sprintf("ABI %d", abi)}
}

// examineUserNamespaces tries to create a user namespace, because each system has its own settings
// that forbid it. Some, such as Ubuntu with its AppArmor rule, create one that has no rights.
func examineUserNamespaces(ctx context.Context) systemFeature {
	f := systemFeature{Name: "user namespaces"}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	if err := runInNamespaces(ctx, syscall.CLONE_NEWUSER); err != nil {
		f.Detail = "refused: " + err.Error()
		return f
	}
	if err := runInNamespaces(ctx, syscall.CLONE_NEWUSER|syscall.CLONE_NEWNS); err != nil {
		f.Detail = "created without rights: a mount in one is refused (" + err.Error() + ")"
		if text, err := os.ReadFile("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"); err == nil && strings.TrimSpace(string(text)) == "1" {
			f.Detail += "; kernel.apparmor_restrict_unprivileged_userns is 1"
		}
		return f
	}
	f.Available, f.Detail = true, "allowed for this user"
	return f
}

// runInNamespaces runs this program in new namespaces. With CLONE_NEWNS, the start of the process
// makes a first mount, the one that detaches its mounts from ours.
func runInNamespaces(ctx context.Context, flags uintptr) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "version")
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags & syscall.CLONE_NEWUSER, Unshareflags: flags &^ syscall.CLONE_NEWUSER}
	return cmd.Run()
}

func examineSeccomp() systemFeature {
	actions, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	if err != nil {
		return systemFeature{Name: "seccomp filters", Detail: err.Error()}
	}
	return systemFeature{Name: "seccomp filters", Available: true, Detail: strings.TrimSpace(string(actions))}
}

// examineResourceLimits returns the current limits, which sessions inherit.
func examineResourceLimits() systemFeature {
	f := systemFeature{Name: "resource limits", Available: true}
	var parts []string
	for _, l := range []struct {
		name string
		id   int
	}{{"memory", unix.RLIMIT_AS}, {"processes", unix.RLIMIT_NPROC}, {"open files", unix.RLIMIT_NOFILE}, {"CPU seconds", unix.RLIMIT_CPU}} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(l.id, &limit); err != nil {
			parts = append(parts, l.name+" "+err.Error())
			continue
		}
		value := "unlimited"
		if limit.Cur != unix.RLIM_INFINITY {
			value = fmt.Sprint(limit.Cur)
		}
		parts = append(parts, l.name+" "+value)
	}
	f.Detail = "now " + strings.Join(parts, ", ")
	return f
}
