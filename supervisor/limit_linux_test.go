package supervisor_test

// limitsMemory says whether this system knows memory limits.
const limitsMemory = true
