package workers

import (
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// neededVariables are always passed on, whatever their value looks like.
var neededVariables = []string{"HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "TERM", "USER"}

// keyVariables give access to programs that hold keys, or are keys without a telling name.
var keyVariables = []string{
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DOCKER_AUTH_CONFIG",
	"KUBECONFIG", "NETRC", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DATABASE_URL",
}

var (
	// secretNamePattern matches names of variables with keys. It must not match
	// TOKENIZERS_PARALLELISM.
	secretNamePattern = text.Pattern(`TOKEN([^I]|I[^Z]|$)|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|` +
		`(API|PRIVATE|ACCESS|SIGNING|ENCRYPTION|MASTER)_?KEY|CONNECTION_?STRING|` +
		`(^|_)(PASS|PW|PAT|JWT|COOKIES?|DSN|AUTHORIZATION|BEARER)[0-9]*(_|$)|_(PWD|AUTH|SAS|KEYS?)[0-9]*$|(SSH|DB|PG|SQL|USER|MAIL|SMTP|LDAP|ROOT|ADMIN)PASS$`)

	// secretValuePattern matches keys in the formats that their issuers designed for scanners,
	// and values that contain a login.
	secretValuePattern = text.Pattern(`(^|[^A-Za-z0-9])(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|gl[a-z]{1,4}-[\w-]{16,}|sk-[\w-]{20,}|xox[a-z]-[\w-]{10,}|` +
		`A(KI|SI)A[A-Z0-9]{16}|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-A[\w-]{20,}|do[oprt]_v1_[a-f0-9]{40,}|[prsw]k_(live|test)_[A-Za-z0-9]{16,}|` +
		`hv[bs]\.[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|dckr_[a-z]+_[\w-]{20,}|gsk_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}|tskey-[a-z]+-[\w-]+|dapi[a-f0-9]{32}|figd_[\w-]{20,}|` +
		`shp[a-z]{2}_[A-Za-z0-9]{20,}|pscale_[a-z]+_[\w-]{20,}|lin_api_[A-Za-z0-9]{20,}|dp\.[a-z]+\.[A-Za-z0-9]{20,}|key-[a-f0-9]{32}|nvapi-[\w-]{20,}|sntry[su]_[\w=+/-]{20,}|glsa_\w{20,}|` +
		`eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+)|-----BEGIN [A-Z ]*PRIVATE KEY-----|AGE-SECRET-KEY-1|hooks\.slack\.com/services/|discord(app)?\.com/api/webhooks/|` +
		`(?i:^(bearer|basic) +\S|(^|[;?& ])(password|pwd|accountkey|sharedaccesskey|access_token|api_?key|sig)=[^;&\s])`)

	// longToken matches values that may contain a key without a distinctive format.
	longToken = text.Pattern(`^[\w-]*[A-Za-z0-9]{28,}[\w-]*$`)
	digitRuns = text.Pattern(`[0-9]+`)

	// loginInURL matches a user and a password before the host of a URL. On the web a user alone
	// may be a key.
	loginInURL = text.Pattern(`(://)[^/@\s:]*:[^/\s]*@|(https?://)[^/@\s]+@`)

	// loginInProxy matches a login in a proxy address without a scheme, which curl and others
	// allow.
	loginInProxy = text.Pattern(`(?i)^(\w*proxy=)[^/@\s:]+:[^/\s]*@`)
)

// SecretVariables returns the names in an environment whose values are keys, or give access to
// programs that hold keys. It judges by the name or by the format of the value.
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

// LoginVariables returns the variables of an environment that have a login in a URL, without
// that login. Those of SecretVariables are not included.
func LoginVariables(env []string) []string {
	var without []string
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		plain := loginInProxy().ReplaceAllString(name+"="+loginInURL().ReplaceAllString(value, "$1$2"), "$1")
		if plain != name+"="+value && !isSecretVariable(strings.ToUpper(name), value) {
			without = append(without, plain)
		}
	}
	return without
}

func isSecretVariable(name, value string) bool {
	switch {
	case slices.Contains(neededVariables, name):
		return false
	case slices.Contains(keyVariables, name):
		return true
	}
	return secretNamePattern().MatchString(name) || secretValuePattern().MatchString(value) || isRandomToken(value)
}

// isRandomToken reports whether a value is one long word that mixes digits and letters in both
// cases, as no user would write it. Hashes and identifiers have only one case.
func isRandomToken(value string) bool {
	return longToken().MatchString(value) && value != strings.ToLower(value) && value != strings.ToUpper(value) && len(digitRuns().FindAllString(value, 3)) == 3
}
