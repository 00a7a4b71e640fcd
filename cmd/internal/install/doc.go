// Package install adds this program to the configuration of MCP clients, removes it, and
// reports existing entries.
//
//	c, _ := install.FindClient("cursor")
//	report, err := c.Install(ctx, install.FindConfigDirs(), server, install.Options{})
//
// Claude Code's user file is the client's own state, so the client's own command changes it. Every
// other file belongs to the user. The package edits it in place, as text, so that comments, order,
// unknown keys, indentation and line ends stay. Before it writes the result, it parses the text and
// compares it with the intended meaning. It reads a file again that another program has changed in
// the meantime.
//
// Install and Uninstall start no goroutines. A client's command has 30 s, and ends with the
// context. A file of more than 32 MiB is an error.
package install
