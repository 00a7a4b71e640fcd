//go:build !windows

package mcpclient

// safeVariables are those of our own environment that every server gets. None of them has a
// secret.
func safeVariables() []string {
	return []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}
}
