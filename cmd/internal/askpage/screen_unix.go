//go:build unix && !darwin

package askpage

import "os"

// screenHere reports whether the user of this machine sits at a screen.
func screenHere() bool {
	return os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}
