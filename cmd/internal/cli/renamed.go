package cli

import "slices"

// renamedCommands maps each command that was renamed before the first release to its current name.
var renamedCommands = map[string]string{
	"allow": "grant",
	"ctl":   "daemon",
	"dial":  "bridge",
	"place": "remote",
}

// renamedFlags maps each flag that was renamed before the first release to its current name. Older
// notes and scripts still contain the old ones.
var renamedFlags = map[string]string{
	"accept":         "confirm-write",
	"alive":          "silence-timeout",
	"allow":          "allow-tool",
	"approve":        "auto-approve",
	"ask":            "ask-permission",
	"call":           "tool",
	"cull-idle":      "session-idle-timeout",
	"deny":           "deny-tool",
	"files":          "open-files",
	"hold":           "exclusive",
	"home":           "home-access",
	"idle":           "session-idle-timeout",
	"idle-exit":      "daemon-idle-timeout",
	"image-size":     "max-image-size",
	"keep":           "keep-on-shutdown",
	"keyboard":       "lock-holder",
	"login":          "login-env",
	"no":             "deny",
	"place":          "remote",
	"places":         "remotes",
	"readable":       "allow-read",
	"restart-keeps":  "keep-on-restart",
	"sandbox-accept": "sandbox-fallback",
	"servers":        "mcp-servers",
	"to":             "format",
	"turn-limit":     "turn-timeout",
	"warm-with":      "warm-code",
	"writable":       "allow-write",
}

// renamedFlag returns the current name of a renamed flag if it is among the known ones, or "".
func renamedFlag(name string, known []string) string {
	if now := renamedFlags[name]; slices.Contains(known, now) {
		return now
	}
	return ""
}
