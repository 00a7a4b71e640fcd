package transportcmd

import (
	"path"
	"strings"
)

// IsNotFound reports whether the status and the last words with which a command ended mean that the
// program which it was to run is not on the far side, or cannot be run there. Shells say so by
// 126 and 127, and engines of containers and queues by words in which the program is named.
func IsNotFound(status int, said, program string) bool {
	if status == 255 { // of ssh itself
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

// FailureHint says what a person can do about the last words of a command that could ask nobody; "" if
// that is not known.
func FailureHint(words []string, said string) string {
	if len(words) == 0 || strings.TrimSuffix(path.Base(strings.ReplaceAll(words[0], `\`, "/")), ".exe") != "ssh" {
		return ""
	}
	for _, sign := range []string{"Host key verification failed", "Permission denied", "Too many authentication failures", "REMOTE HOST IDENTIFICATION"} {
		if strings.Contains(said, sign) {
			return "run " + JoinWords(words) + " true once at a terminal: it shows what ssh asks or refuses"
		}
	}
	return ""
}
