package python

import (
	"fmt"
	"io/fs"
	"syscall"
)

// changeStamp distinguishes a file from every earlier one at its path, since no program can set its
// change time (ctime).
func changeStamp(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Ctim.Nano())
}
