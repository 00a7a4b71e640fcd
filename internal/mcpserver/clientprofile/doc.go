// Package clientprofile knows what is particular to MCP clients: how much text of a result each
// one shows, how long it waits, and what it allows its own commands.
//
// It holds values and pure functions. The server passes in what a client says of itself, and
// applies the answers. The package starts no goroutines.
package clientprofile
