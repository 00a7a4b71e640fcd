package supervisor_test

// terminalReaderCode is code that reads the terminal directly. That cannot be detected on this
// system.
var terminalReaderCode = []string(nil)

// hasMemoryLimits says whether this system supports memory limits.
const hasMemoryLimits = true
