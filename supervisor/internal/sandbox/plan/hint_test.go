package plan

import (
	"strings"
	"syscall"
	"testing"
)

func TestHint(t *testing.T) {
	t.Parallel()
	for path, row := range map[string][2]string{
		"/proc/sys/user/max_user_namespaces":                     {"0", "user.max_user_namespaces"},
		"/proc/sys/kernel/unprivileged_userns_clone":             {"0", "kernel.unprivileged_userns_clone"},
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": {"1", "AppArmor"},
		"/no/such/file": {"", "container"},
	} {
		got := permissionHint(func(p string) string {
			if p == path {
				return row[0]
			}
			return ""
		})
		if !strings.Contains(got, row[1]) {
			t.Errorf("%s is %q: got %q, want it to name %s", path, row[0], got, row[1])
		}
	}
	if got := Hint("user namespace", syscall.EPERM); !strings.Contains(got, "an administrator can") || !strings.Contains(got, "the sandbox full") {
		t.Errorf("got %q", got)
	}
}
