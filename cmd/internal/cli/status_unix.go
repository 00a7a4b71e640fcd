//go:build unix

package cli

// statusMask has the bits of an exit status that reach a parent (POSIX, wait).
const statusMask = 0xff
