package egress

import (
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/sandbox"
)

// A ConfigSource says where the user's package configuration is and how to read it.
type ConfigSource struct {
	Env  []string
	Root string // prefix of absolute system paths; "" outside tests
	// ReadFile reads a file. It returns nil for a file that a session may have created, or whose
	// path a session may have changed.
	ReadFile func(path string) []byte
}

// A registryKind is a kind of package registry, with the places where its address is configured.
// Only the files of the user and the machine count: a session may write those of its workspace.
type registryKind struct {
	publicHosts []string              // used if nothing is configured
	variables   []string              // environment variables with addresses, or names and addresses
	files       []string              // relative to the home directory, absolute, or from a variable: "$NAME" or "$NAME/file"
	linePattern func() *regexp.Regexp // matches the lines that may name an address
	companions  map[string]string     // further host of a registry, by its host
}

var registryKinds = []registryKind{
	{
		publicHosts: []string{"pypi.org", "files.pythonhosted.org"},
		variables: []string{
			"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS",
			"UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS",
		},
		files: []string{
			"/etc/pip.conf", ".pip/pip.conf", ".config/pip/pip.conf", "$XDG_CONFIG_HOME/pip/pip.conf", "$PIP_CONFIG_FILE",
			"/etc/uv/uv.toml", ".config/uv/uv.toml", "$XDG_CONFIG_HOME/uv/uv.toml", "$UV_CONFIG_FILE",
		},
		linePattern: text.Pattern(`(?i)^\s*(extra[-_])?index[-_]url|^\s*find[-_]links|^\s*url\s*=|^\s*(index|default[-_]index)\s*=|^\s+\S*https?://`),
		companions:  map[string]string{"pypi.org": "files.pythonhosted.org", "test.pypi.org": "test-files.pythonhosted.org"},
	},
	{
		publicHosts: []string{"registry.npmjs.org"},
		variables:   []string{"NPM_CONFIG_REGISTRY", "npm_config_registry", "YARN_NPM_REGISTRY_SERVER"},
		files:       []string{"/etc/npmrc", "/usr/etc/npmrc", ".npmrc", "$NPM_CONFIG_USERCONFIG", "$npm_config_userconfig"},
		linePattern: text.Pattern(`^\s*(@[\w.-]+:)?registry\s*=`),
	},
	{
		publicHosts: []string{"cloud.r-project.org", "cran.r-project.org", "cran.rstudio.com"},
		variables:   []string{"CRAN", "R_REPOSITORIES_URL", "RENV_CONFIG_REPOS_OVERRIDE"},
		files:       []string{"/etc/R/Rprofile.site", "/usr/lib/R/etc/Rprofile.site", "/usr/local/lib/R/etc/Rprofile.site", ".Rprofile", "$R_PROFILE", "$R_PROFILE_USER", "$R_HOME/etc/Rprofile.site"},
		linePattern: text.Pattern(`(?i)^[^#]*(repos|CRAN)\b`),
	},
}

var addressPattern = text.Pattern(`https?://(\[[0-9a-fA-F:.]+\])?[^\s"',;)\]}<>]+`)

// ExpandHosts replaces sandbox.PackageHosts in a list with the hosts of the registries.
func ExpandHosts(hosts []string, s ConfigSource) []string {
	var all []string
	for _, h := range hosts {
		if h != sandbox.PackageHosts {
			all = append(all, h)
			continue
		}
		for _, r := range registryKinds {
			all = append(all, r.configuredHosts(s)...)
		}
	}
	return all
}

// configuredHosts returns the configured hosts with their ports, or the public ones if none is
// configured.
func (r registryKind) configuredHosts(s ConfigSource) []string {
	var texts []string
	for _, v := range r.variables {
		texts = append(texts, environ.Get(s.Env, v))
	}
	for _, f := range r.files {
		texts = append(texts, r.matchingLines(s.ReadFile(s.configPath(f)))...)
	}
	var found []string
	add := func(h string) {
		if !slices.Contains(found, h) {
			found = append(found, h)
		}
	}
	for _, a := range addressPattern().FindAllString(strings.Join(texts, "\n"), -1) {
		if h, ok := hostPattern(a); ok {
			add(h)
			if name, port, ok := strings.Cut(h, ":"); ok && r.companions[name] != "" {
				add(r.companions[name] + ":" + port)
			}
		}
	}
	if len(found) == 0 {
		for _, name := range r.publicHosts {
			add(name + ":443")
		}
	}
	return found
}

// hostPattern returns the host pattern of a URL: its host and port.
func hostPattern(address string) (string, bool) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "", false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	h, err := sandbox.ParseHostPattern(net.JoinHostPort(strings.TrimSuffix(u.Hostname(), "."), port))
	return h.String(), err == nil
}

// configPath returns the path of a configuration file, or "" if it is unknown.
func (s ConfigSource) configPath(file string) string {
	if name, ok := strings.CutPrefix(file, "$"); ok {
		name, rest, _ := strings.Cut(name, "/")
		dir := environ.Get(s.Env, name)
		if !filepath.IsAbs(dir) { // a relative path may be in the workspace
			return ""
		}
		return filepath.Join(dir, rest)
	}
	if strings.HasPrefix(file, "/") {
		return filepath.Join(s.Root, file)
	}
	if home := environ.Get(s.Env, "HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, file)
	}
	return ""
}

// matchingLines returns the lines of a text that may name addresses.
func (r registryKind) matchingLines(text []byte) (lines []string) {
	for line := range strings.Lines(string(text)) {
		if r.linePattern().MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}
