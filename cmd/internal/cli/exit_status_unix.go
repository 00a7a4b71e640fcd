//go:build unix

package cli

// exitStatusMask has the bits of an exit status that reach a parent (POSIX, wait).
const exitStatusMask = 0xff
