package workers

import (
	"regexp"
	"slices"
	"strings"
)

// neededVariables stay, whatever their value looks like.
var neededVariables = []string{"HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "TERM", "USER"}

// waysToKeys are variables that lead to programs that hold keys, or are keys without saying so.
var waysToKeys = []string{
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DOCKER_AUTH_CONFIG",
	"KUBECONFIG", "NETRC", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DATABASE_URL",
}

var (
	// secretName matches what the names of keys have in them. TOKENIZERS_PARALLELISM has no token.
	secretName = regexp.MustCompile(`TOKEN([^I]|I[^Z]|$)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|` +
		`(API|PRIVATE|ACCESS|SIGNING|ENCRYPTION|MASTER)_?KEY|CONNECTION_?STRING|` +
		`(^|_)(PASS|PW|PAT|JWT|COOKIES?|DSN)[0-9]*(_|$)|_(PWD|AUTH|SAS|KEYS?)[0-9]*$`)

	// secretValue matches keys in the forms that their makers gave them, to be found by programs.
	secretValue = regexp.MustCompile(`(^|[^A-Za-z0-9])(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|` +
		`A(KI|SI)A[A-Z0-9]{16}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-AgE[\w-]{20,}|dop_v1_[a-f0-9]{40,}|` +
		`eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+)|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

	// loginInURL matches a user and a password before the host of a URL.
	loginInURL = regexp.MustCompile(`(://)[^/@\s:]*:[^/\s]*@`)
)

// SecretVariables are the names in an environment whose values are keys, or lead to programs that hold
// keys, by the name or by the form of the value.
func SecretVariables(env []string) []string {
	var names []string
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if isSecretVariable(strings.ToUpper(name), value) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// LoginVariables are the variables of an environment that have a login in a URL, without it. Those of
// SecretVariables are not among them.
func LoginVariables(env []string) []string {
	var without []string
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if loginInURL.MatchString(value) && !isSecretVariable(strings.ToUpper(name), value) {
			without = append(without, name+"="+loginInURL.ReplaceAllString(value, "$1"))
		}
	}
	return without
}

func isSecretVariable(name, value string) bool {
	switch {
	case slices.Contains(neededVariables, name):
		return false
	case slices.Contains(waysToKeys, name):
		return true
	}
	return secretName.MatchString(name) || secretValue.MatchString(value)
}
