//go:build unix

package cmdflags

// keepsOpenFiles says whether the system refuses to move or remove an open file, and has no modes of
// files.
const keepsOpenFiles = false
