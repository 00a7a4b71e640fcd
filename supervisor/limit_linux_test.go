package supervisor_test

// hasMemoryLimits is whether this system supports memory limits.
const hasMemoryLimits = true
