//go:build linux || darwin

package host

import (
	"os"
	"syscall"
)

// FoldEnv says whether the names of environment variables are compared
// without case.
const FoldEnv = false

// OwnedByUs reports whether the file belongs to the user of this process.
func OwnedByUs(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
