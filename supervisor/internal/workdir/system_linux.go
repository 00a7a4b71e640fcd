package workdir

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/session"
)

// versionOf returns a text that changes with each change of a file.
func versionOf(i fs.FileInfo) string {
	if st, ok := i.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%x-%x-%x-%x.%x", st.Dev, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec)
	}
	return fmt.Sprintf("%x-%x", i.Size(), i.ModTime().UnixNano())
}

// checkOnDisk returns an error for a file of /proc. Such a file describes the process that reads it,
// which is not the session.
func checkOnDisk(f *os.File) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return session.Errorf(session.KindFileFailed, "%s: %v", f.Name(), err)
	}
	if st.Type == unix.PROC_SUPER_MAGIC {
		return session.Errorf(session.KindNoAccess, "%s is in /proc, which is different for each process; read it with code", f.Name())
	}
	return nil
}
