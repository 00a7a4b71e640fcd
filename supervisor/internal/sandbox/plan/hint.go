package plan

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Hint returns what the user can do about a failed step.
func Hint(step string, err error) string {
	without := "; to run without a sandbox, choose the sandbox full"
	if slices.Contains([]string{"landlock", "rule"}, step) {
		return "this system cannot confine a session with Landlock either" + without
	}
	without = "; accepting landlock allows a weaker sandbox if the kernel supports it" + without
	if errors.Is(err, syscall.ENOSYS) {
		return "this system does not support sandboxes, which need Linux 5.14 or newer and, in a container, permission for the system calls for mounts" + without
	}
	// A missing or wrong path never causes EPERM.
	if !isSystemStep(step) && !errors.Is(err, syscall.EPERM) {
		return "the sandbox cannot provide a path that this session needs: name other directories" + without
	}
	return "this system does not let programs confine themselves; an administrator can " + permissionHint(func(path string) string {
		text, _ := os.ReadFile(path)
		return strings.TrimSpace(string(text))
	}) + without
}

// permissionHint returns which setting to change, as far as the system's files show it.
func permissionHint(read func(path string) string) string {
	switch {
	case read("/proc/sys/user/max_user_namespaces") == "0":
		return "allow it with: sysctl user.max_user_namespaces=15000"
	case read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "allow it with: sysctl kernel.unprivileged_userns_clone=1"
	case read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "give this program an AppArmor profile with the rule userns"
	}
	return "let this program make user namespaces and mount in them (a container needs a seccomp profile that allows it, and an unmasked /proc)"
}
