package linux

import (
	"os"
	"strconv"
	"strings"
)

// maxTerminals bounds the pseudo-terminals of a session; a machine has a few thousand.
const maxTerminals = "256"

// inotifyDivisors are divisors of a user's inotify limits: a session gets a quarter of the instances
// and half of the watches. The kernel counts them for all programs of the user, and editors and
// servers outside need some.
var inotifyDivisors = map[string]int{"instances": 4, "watches": 2}

// limitInotify sets the session's limits in its own user namespace. Some kernels do not allow it;
// inotify is not limited there.
func limitInotify() {
	for name, divisor := range inotifyDivisors {
		text, _ := os.ReadFile("/proc/sys/fs/inotify/max_user_" + name)
		all, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			continue
		}
		f, err := os.OpenFile("/proc/sys/user/max_inotify_"+name, os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		_, _ = f.WriteString(strconv.Itoa(max(1, all/divisor)))
		f.Close()
	}
}
