// Package clientprofile describes how MCP clients differ: how much text of a result each one shows,
// how long it waits, and what it allows its own commands.
//
// It has values, and functions that change nothing. Those about sandboxes and directories look at
// the file system. The server passes in what a client says about itself, and applies the answers.
// The package knows no calls and no sessions, and starts no goroutines.
package clientprofile
