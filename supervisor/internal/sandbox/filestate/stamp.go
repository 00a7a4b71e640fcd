package filestate

// A Stamp is a summary of a file's metadata that changes whenever the file does.
type Stamp struct {
	device, inode     uint64
	size              int64
	Modified, Changed int64 // in nanoseconds; no program can set Changed
}
