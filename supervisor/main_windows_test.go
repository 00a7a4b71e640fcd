package supervisor_test

// terminalReaders is code that asks by reading the terminal itself, which is not seen
// on this system.
var terminalReaders = []string(nil)

// limitsMemory says whether this system knows memory limits.
const limitsMemory = true
