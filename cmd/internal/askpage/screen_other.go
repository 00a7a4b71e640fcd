//go:build !unix || darwin

package askpage

// hasScreen reports whether the user of this machine sits at a screen.
func hasScreen() bool { return true }
