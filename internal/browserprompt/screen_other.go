//go:build !unix || darwin

package browserprompt

// hasScreen reports whether the user of this machine has a graphical screen.
func hasScreen(func(string) string) bool { return true }
