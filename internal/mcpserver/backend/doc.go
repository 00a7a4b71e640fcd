// Package backend provides the sessions of an MCP server: in this process, in a daemon, or in the
// daemons of several remotes. A Backend opens and lists them. A SessionHandle is one client's
// access to a session, with everything that depends on where the session is.
//
// The package knows no messages and no tools, and does not know that its client is a model. Flags
// and the commands for users come from package agents, through DaemonChoices.
//
// # Goroutines
//
//	name    started by              ends when                   owns
//	cursor  readCursorSaver.saveAt  the last position is saved  the saved position
//
// SessionHandle.SaveCursor and Leave wait for it only briefly, in case the daemon is stuck.
// DaemonSet.Close closes each connection in a separate goroutine, and waits for all of them.
//
// # Locks
//
// remoteDaemon.lock, a token, may be held while a lock of package client is taken. It is held while
// a connection to the daemon is made.
package backend
