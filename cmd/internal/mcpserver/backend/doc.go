// Package backend says where the sessions of an MCP server live: in this process, in a daemon, or
// in the daemons of several remotes. A Backend opens and lists them. A SessionHandle is one
// client's access to a session, with everything that differs between the places.
//
// The package starts no goroutines.
package backend
