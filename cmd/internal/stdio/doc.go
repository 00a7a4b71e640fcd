// Package stdio serves the process that started this one, on standard input and output.
//
// The parent may die in any way, and a forked child of it may keep the pipes open. So the end of
// input is only one sign of its end. The other is the end of the process itself, which the kernel
// reports: a pidfd on Linux, a kqueue on macOS, a handle on Windows.
//
// Reads and writes must be interruptible, so that this process can end while the other side neither
// writes nor reads. Pipes and sockets become non-blocking for this. Where a stream cannot, a
// goroutine does the blocking call, and is abandoned at the end of the process.
//
//	goroutine   started by     ends when
//	parent      WatchParent    the parent has ended; else with the process
//	reader      Open, without  its read returns after Close; else with the process
//	writer      deadlines      Close; else with the process
package stdio
