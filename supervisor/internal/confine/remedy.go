package confine

import (
	"os"
	"slices"
	"strings"
)

// Remedy says what a person can do about a failed step, or "".
func Remedy(step string) string {
	const without = "or do without one: the sandbox full"
	if !slices.Contains([]string{"user namespace", "namespaces", "read-only", "proc", "network", "rights", "filter"}, step) {
		return "this session needs something that the sandbox cannot give here: name other directories, " + without
	}
	return "programs may not confine themselves on this system: an administrator can " + permission(func(path string) string {
		text, _ := os.ReadFile(path)
		return strings.TrimSpace(string(text))
	}) + ", " + without
}

// permission says which setting to change, as far as the system's files show it.
func permission(read func(path string) string) string {
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
