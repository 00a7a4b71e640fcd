package confine

// A stamp is a summary of a file's metadata that changes whenever the file does.
type stamp struct {
	device, inode     uint64
	size              int64
	modified, changed int64 // in nanoseconds; no program can set changed
}
