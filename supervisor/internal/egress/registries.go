package egress

import (
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
)

// A ConfigSource is where the user's configuration is.
type ConfigSource struct {
	Env  []string
	Root string // before each absolute path that is not the user's; "" but in tests
	// ReadFile reads a file; it returns nil for one that a session may have made, or to which it may have led.
	ReadFile func(path string) []byte
}

func (s ConfigSource) lookupEnv(name string) string {
	for _, entry := range slices.Backward(s.Env) { // the last of a repeated name counts, as for programs
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// A registryKind is a kind of place that packages come from, and where its address is configured.
// Only the files of the user and the machine count: a session may write those of its workspace.
type registryKind struct {
	publicHosts []string       // hosts that serve where nothing is configured
	variables   []string       // hold addresses, or names and addresses
	files       []string       // relative to the home directory, absolute, or of a variable: "$NAME" or "$NAME/file"
	linePattern *regexp.Regexp // the lines of a file that count
	companions  map[string]string
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
		linePattern: regexp.MustCompile(`(?i)^\s*(extra[-_])?index[-_]url|^\s*find[-_]links|^\s*url\s*=|^\s*(index|default[-_]index)\s*=|^\s+\S*https?://`),
		companions:  map[string]string{"pypi.org": "files.pythonhosted.org", "test.pypi.org": "test-files.pythonhosted.org"},
	},
	{
		publicHosts: []string{"registry.npmjs.org"},
		variables:   []string{"NPM_CONFIG_REGISTRY", "npm_config_registry", "YARN_NPM_REGISTRY_SERVER"},
		files:       []string{"/etc/npmrc", "/usr/etc/npmrc", ".npmrc", "$NPM_CONFIG_USERCONFIG", "$npm_config_userconfig"},
		linePattern: regexp.MustCompile(`^\s*(@[\w.-]+:)?registry\s*=`),
	},
	{
		publicHosts: []string{"cloud.r-project.org", "cran.r-project.org", "cran.rstudio.com"},
		variables:   []string{"CRAN", "R_REPOSITORIES_URL", "RENV_CONFIG_REPOS_OVERRIDE"},
		files:       []string{"/etc/R/Rprofile.site", "/usr/lib/R/etc/Rprofile.site", "/usr/local/lib/R/etc/Rprofile.site", ".Rprofile", "$R_PROFILE", "$R_PROFILE_USER", "$R_HOME/etc/Rprofile.site"},
		linePattern: regexp.MustCompile(`(?i)^[^#]*(repos|CRAN)\b`),
	},
}

var addressPattern = regexp.MustCompile(`https?://(\[[0-9a-fA-F:.]+\])?[^\s"',;)\]}<>]+`)

// ExpandHosts replaces workers.PackageHosts in a list by the registries' hosts.
func ExpandHosts(hosts []string, s ConfigSource) []string {
	var all []string
	for _, h := range hosts {
		if h != workers.PackageHosts {
			all = append(all, h)
			continue
		}
		for _, r := range registryKinds {
			all = append(all, r.configuredHosts(s)...)
		}
	}
	return all
}

// configuredHosts returns the hosts that are configured, with their ports, or else the public ones.
func (r registryKind) configuredHosts(s ConfigSource) []string {
	var texts []string
	for _, v := range r.variables {
		texts = append(texts, s.lookupEnv(v))
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
	for _, a := range addressPattern.FindAllString(strings.Join(texts, "\n"), -1) {
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

// hostPattern returns the pattern of an address: its host and port.
func hostPattern(address string) (string, bool) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "", false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	h, err := workers.ParseHostPattern(net.JoinHostPort(strings.TrimSuffix(u.Hostname(), "."), port))
	return h.String(), err == nil
}

// configPath returns where a file of the configuration is, or "".
func (s ConfigSource) configPath(file string) string {
	if name, ok := strings.CutPrefix(file, "$"); ok {
		name, rest, _ := strings.Cut(name, "/")
		dir := s.lookupEnv(name)
		if !filepath.IsAbs(dir) { // a path in the workspace
			return ""
		}
		return filepath.Join(dir, rest)
	}
	if strings.HasPrefix(file, "/") {
		return filepath.Join(s.Root, file)
	}
	if home := s.lookupEnv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, file)
	}
	return ""
}

// matchingLines returns the lines of a text that name addresses.
func (r registryKind) matchingLines(text []byte) (lines []string) {
	for line := range strings.Lines(string(text)) {
		if r.linePattern.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}
