//go:build unix

package r

import (
	"io/fs"
	"os"
	"syscall"
)

// cacheDirProblem says why another user could have put files into a directory; "" means that
// only the user can.
func cacheDirProblem(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return "is not a directory"
	case !ok || int(stat.Uid) != os.Geteuid():
		return "belongs to somebody else"
	case info.Mode().Perm()&0o022 != 0:
		return "can be written by others (chmod go-w it)"
	}
	return ""
}
