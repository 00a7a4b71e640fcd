package mcptools

// canConfine means that this system has sandboxes. It may still refuse one.
const canConfine = true
