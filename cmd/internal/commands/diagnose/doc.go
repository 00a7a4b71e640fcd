// Package diagnose has the commands that tell what works here: repl doctor, repl sandbox, repl version and
// repl upgrade.
//
// A goroutine of the check of MCP reads the answers of the server. It ends with the server's output.
package diagnose
