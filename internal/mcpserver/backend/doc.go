// Package backend says where the sessions of an MCP server live: in this process, in a daemon, or
// in the daemons of several remotes. A Backend opens and lists them. A SessionHandle is one
// client's access to a session, with everything that differs between the places.
//
// # Goroutines
//
//	name    started by              ends when                   owns
//	cursor  readCursorSaver.saveAt  the last position is saved  the saved position
//
// SessionHandle.Leave waits for it only briefly, in case the daemon is stuck. DaemonSet.Close closes
// each connection in a goroutine of its own, and waits for all.
package backend
