// Package install adds this program to the configuration of MCP clients, removes it, and
// reports existing entries.
//
//	c, _ := install.FindClient("cursor")
//	report, err := c.Install(ctx, install.FindConfigDirs(), server, install.Options{})
//
// Claude Code's user file also holds the state of Claude Code, so Claude Code's own command changes
// it. Every other file belongs to the user. It is edited in place, as text, so that comments,
// order, unknown keys, indentation and line ends stay. Before the result is written, it is parsed
// and compared with the intended meaning. A file that another program has changed in the meantime
// is read again.
//
// Install and Uninstall start no goroutines. A client's command has 30 s, and ends with the
// context. A file of more than 32 MiB is an error.
package install
