package cli

import (
	"cmp"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
)

// renamedCommands maps each command that was renamed before the first release to its current name.
var renamedCommands = map[string]string{
	"allow": "grant",
	"ctl":   "daemon",
	"dial":  "bridge",
	"place": "remote",
}

// nearestCommand returns the command that an old name or a misspelled one means, or "".
func nearestCommand(name string) string {
	var names []string
	for _, c := range visibleCommands()[1:] {
		names = append(names, c.Name)
	}
	return cmp.Or(renamedCommands[name], cmdkit.NearestName(name, names))
}
