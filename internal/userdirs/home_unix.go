//go:build unix

package userdirs

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownHome returns the home directory of the user of this process: HOME if it belongs to that user,
// otherwise the one in the user database.
func ownHome(getenv func(string) string) string {
	home := getenv("HOME")
	if !isOwn(home) {
		if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil && filepath.IsAbs(u.HomeDir) {
			home = u.HomeDir
		}
	}
	if !filepath.IsAbs(home) {
		return ""
	}
	return home
}

// isOwn reports whether a directory exists and belongs to this user. A volume of a container often belongs to
// root, and its user may write to it. Directories that all users share, such as /tmp, have the sticky bit.
func isOwn(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	return int(st.Uid) == os.Geteuid() || st.Uid == 0 && info.Mode()&os.ModeSticky == 0 && unix.Access(dir, unix.W_OK|unix.X_OK) == nil
}
