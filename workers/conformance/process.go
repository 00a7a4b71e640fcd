package conformance

import "io"

// A workerLink is a started worker, as far as it depends on the system.
type workerLink struct {
	terminal   io.ReadCloser // its output; Close ends a Read
	fromWorker io.ReadCloser
	toWorker   io.WriteCloser // also used for deliberately odd frames
	pipes      []uint64       // the inode numbers of the channel's two pipes; 0 is unknown
	sendSignal func(group bool) error
	kill       func() // the worker, and the rest of its children
}
