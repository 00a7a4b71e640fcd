package installsource

// ReplacesRunningFile says that the file of a running program can be replaced.
const ReplacesRunningFile = false

// isWritable is true: Windows has no sudo to offer.
func isWritable(string) bool { return true }
