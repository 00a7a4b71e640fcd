package cli

import (
	"cmp"
	"slices"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
)

// findCommand finds a command by its name.
func findCommand(name string) (cmdkit.CommandInfo, bool) {
	all := allCommands()[1:]
	i := slices.IndexFunc(all, func(c cmdkit.CommandInfo) bool { return c.Name == name })
	if i < 0 {
		return cmdkit.CommandInfo{}, false
	}
	return all[i], true
}

// visibleCommands returns the commands that lists show.
func visibleCommands() []cmdkit.CommandInfo {
	return slices.DeleteFunc(allCommands(), func(c cmdkit.CommandInfo) bool { return c.Hidden })
}

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
