// Package cmdflags has groups of flags that several commands of repl share: the runtime of a
// session, its sandbox, limits, packages and MCP servers, its terminal, and the log of a command.
// Each group is a struct. AddFlags defines its flags. Other methods check the values and convert
// them for other packages.
//
//	var log cmdflags.LogFlags
//	log.AddFlags(f)
//	// after the flags are parsed:
//	logger, err := log.OpenLogger(s.Err)
//
// Several programs may share a log. It contains no code, output or secrets.
//
// The package starts no goroutines, and does not depend on commands.
//
// # Locks
//
// LogFile.mu is held during a write, and while a full file is replaced.
package cmdflags
