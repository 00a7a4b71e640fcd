//go:build !unix || darwin

package browserprompt

// hasScreen reports whether the user of this machine sits at a screen.
func hasScreen() bool { return true }
