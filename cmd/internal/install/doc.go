// Package install puts this program into the configuration of MCP clients, takes
// it out again, and says what is there.
//
//	c, _ := install.Named("cursor")
//	report, err := c.Install(ctx, install.Here(), server, install.Options{})
//
// Claude Code's user file is the client's own state, so its own command changes
// it. Every other file is a person's: it is edited in place, as text, so that
// comments, order, unknown keys, indentation and line ends stay. The result of an
// edit is parsed and compared with what it should mean before it is written, and a
// file that another program changed meanwhile is read again.
//
// Install and Uninstall start no goroutines. A client's command has 30 s, and ends
// with the context; the size of a file is bounded at 32 MiB.
package install
