package confine

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Hint says what a person can do about a failed step.
func Hint(step string, err error) string {
	without := "; the sandbox full does without one"
	if slices.Contains([]string{"landlock", "rule"}, step) {
		return "this system does not hold a session by Landlock either" + without
	}
	without = "; accepting landlock takes a weaker one where the kernel has it" + without
	if errors.Is(err, syscall.ENOSYS) {
		return "this system lacks what a sandbox needs: Linux 5.14 or newer, or a container that allows the calls of new mounts" + without
	}
	// No path forbids a call as such.
	if !isSystemStep(step) && !errors.Is(err, syscall.EPERM) {
		return "this session needs something that the sandbox cannot give here: name other directories" + without
	}
	return "programs may not confine themselves on this system: an administrator can " + permissionHint(func(path string) string {
		text, _ := os.ReadFile(path)
		return strings.TrimSpace(string(text))
	}) + without
}

// permissionHint says which setting to change, as far as the system's files show it.
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
