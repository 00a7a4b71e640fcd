//go:build unix

package cmdkit

// exitStatusMask has the bits of an exit status that reach a parent (POSIX, wait).
const exitStatusMask = 0xff
