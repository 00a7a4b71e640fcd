// Package prefix runs the command that leads to a place, such as "ssh gpu1", and hands out its
// standard streams as a connection.
//
// The command has a process group of its own on Unix and a job on Windows, and both end with the
// connection. It runs without a shell.
//
// # Goroutines
//
//	name     started by  ends when                                owns
//	reaper   Start       the command and its group have ended     how it ended
//	copier   Start       its standard error ends, or 1 s after    what it says there
//
// End waits for the reaper.
package transportcmd
