//go:build !windows

package mcpclient

// safeVariables are the environment variables that every server inherits. None of them holds a
// secret.
func safeVariables() []string {
	return []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}
}
