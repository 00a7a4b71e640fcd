//go:build !unix || darwin

package askpage

// screenHere reports whether the user of this machine sits at a screen.
func screenHere() bool { return true }
