package supervisor_test

// terminalReaderCode is code that asks by reading the terminal itself, which is not seen
// on this system.
var terminalReaderCode = []string(nil)

// hasMemoryLimits says whether this system knows memory limits.
const hasMemoryLimits = true
