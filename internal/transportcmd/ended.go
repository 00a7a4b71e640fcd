package transportcmd

import (
	"path"
	"strings"
)

// IsNotFound reports whether program is missing at the remote end, or cannot be run there. status
// is the exit status of the transport command, and said is the end of its standard error. Shells
// report this by the status 126 or 127. Container engines and batch queues report it by a message
// that names the program.
func IsNotFound(status int, said, program string) bool {
	if status == 255 { // an error of ssh itself
		return false
	}
	if status == 126 || status == 127 {
		return true
	}
	name := path.Base(program)
	for line := range strings.Lines(said) {
		line = strings.ToLower(line)
		for _, sign := range []string{"not found", "no such file or directory", "is not recognized", "exec format error"} {
			if strings.Contains(line, sign) && strings.Contains(line, name) {
				return true
			}
		}
	}
	return false
}

// FailureHint returns what a user can do if a command failed because it could not ask them; "" if
// unknown.
func FailureHint(words []string, said string) string {
	if len(words) == 0 || strings.TrimSuffix(path.Base(strings.ReplaceAll(words[0], `\`, "/")), ".exe") != "ssh" {
		return ""
	}
	for _, sign := range []string{"Host key verification failed", "Permission denied", "Too many authentication failures", "REMOTE HOST IDENTIFICATION"} {
		if strings.Contains(said, sign) {
			return "run " + JoinWords(words) + " true once in a terminal to see what ssh asks or refuses"
		}
	}
	return ""
}
