package supervisor

// openAtOnce is for systems that have pipes in directories.
const openAtOnce = 0
