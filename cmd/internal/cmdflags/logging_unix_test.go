//go:build unix

package cmdflags

// keepsOpenFiles says that the system neither moves nor removes a file that is open, and
// has no mode of it.
const keepsOpenFiles = false
