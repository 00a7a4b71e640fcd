package supervisor_test

// hasMemoryLimits says whether this system knows memory limits.
const hasMemoryLimits = false
