//go:build unix && !darwin

package browserprompt

// hasScreen reports whether the user of this machine has a graphical screen.
func hasScreen(getenv func(string) string) bool {
	return getenv("DISPLAY") != "" || getenv("WAYLAND_DISPLAY") != ""
}
