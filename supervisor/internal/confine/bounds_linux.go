package confine

import (
	"os"
	"strconv"
	"strings"
)

// maxTerminals bounds the pseudo-terminals of a session, of which a machine has some thousands.
const maxTerminals = "256"

// inotifyShares are the parts of a user's inotify that a session may have: a quarter of the instances and half of the
// watches. The kernel counts them for all programs of the user, and editors and servers outside need some.
var inotifyShares = map[string]int{"instances": 4, "watches": 2}

// limitInotify sets the session's part in its own user namespace. Some kernels do not allow that; inotify is
// not bounded there.
func limitInotify() {
	for name, part := range inotifyShares {
		text, _ := os.ReadFile("/proc/sys/fs/inotify/max_user_" + name)
		all, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			continue
		}
		f, err := os.OpenFile("/proc/sys/user/max_inotify_"+name, os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		_, _ = f.WriteString(strconv.Itoa(max(1, all/part)))
		f.Close()
	}
}
