// Package transportcmd runs the transport command of a remote, such as "ssh gpu1", and uses its
// standard streams as a connection.
//
// The command has its own process group on Unix and its own job on Windows, and both end with the
// connection. It runs without a shell.
//
// # Goroutines
//
//	name     started by  ends when                               owns
//	reaper   Start       the command and its group have ended    the exit state
//	copier   Start       standard error ends, or 1 s after that  the standard error
//
// [Process.Terminate] waits for the reaper.
package transportcmd
