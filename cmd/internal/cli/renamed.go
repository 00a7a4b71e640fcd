package cli

import "slices"

// renamedCommands has the present name of each command that was renamed before the first release.
var renamedCommands = map[string]string{
	"allow": "grant",
	"ctl":   "daemon",
	"dial":  "bridge",
	"place": "remote",
}

// renamedFlags has the present name of each flag that was renamed before the first release. Notes and
// scripts of the time before still have the old ones.
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

// renamedFlag returns the present name of a renamed flag, if it is among the known ones; "" otherwise.
func renamedFlag(name string, known []string) string {
	if now := renamedFlags[name]; slices.Contains(known, now) {
		return now
	}
	return ""
}
