//go:build !linux

package mcptools

// canConfine is false, because this system has no sandboxes.
const canConfine = false
