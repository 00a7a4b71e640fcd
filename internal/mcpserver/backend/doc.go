// Package backend provides the sessions of an MCP server: in this process, in a daemon, or in the
// daemons of several remotes. A Backend opens and lists them. A SessionHandle is one client's
// access to a session, and hides the differences between these three.
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
// DaemonSet.Close closes each connection in a goroutine of its own, and waits for all.
//
// # Locks
//
// remoteDaemon.lock, a token, may be held while a lock of package client is taken. It is held while
// a connection to the daemon is made.
package backend
