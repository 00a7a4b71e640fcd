package cli

// renamedCommands maps each command that was renamed before the first release to its current name.
var renamedCommands = map[string]string{
	"allow": "grant",
	"ctl":   "daemon",
	"dial":  "bridge",
	"place": "remote",
}
