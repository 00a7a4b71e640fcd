// Package diagnose has the commands that report what works on this machine: repl doctor, repl
// sandbox, repl version and repl upgrade.
//
// The check of MCP has a goroutine that reads the answers of the server. It ends with the server's
// output.
package diagnose
