// Package diagnose has the commands that describe this installation: repl doctor, repl sandbox,
// repl version and repl upgrade.
//
// The check of MCP has a goroutine that reads the answers of the server. It ends with the server's
// output.
package diagnose
