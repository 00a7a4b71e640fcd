//go:build unix && !darwin

package browserprompt

import "os"

// hasScreen reports whether the user of this machine has a graphical screen.
func hasScreen() bool {
	return os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}
