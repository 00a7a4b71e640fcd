//go:build unix

package r

import (
	"io/fs"
	"os"
	"syscall"
)

// cacheDirProblem returns why another user could write files into a directory, or "" if only the user
// can.
func cacheDirProblem(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return "is not a directory"
	case !ok || int(stat.Uid) != os.Geteuid():
		return "belongs to another user"
	case info.Mode().Perm()&0o022 != 0:
		return "is writable by others (chmod go-w it)"
	}
	return ""
}
