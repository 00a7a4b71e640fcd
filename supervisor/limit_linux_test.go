package supervisor_test

// hasMemoryLimits says whether this system supports memory limits.
const hasMemoryLimits = true
