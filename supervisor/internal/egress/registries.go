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

// A System is where the user's configuration is.
type System struct {
	Env  []string
	Root string // before each absolute path that is not the user's; "" but in tests
	// Read reads a file; it returns nil for one that a session may have made, or to which it may have led.
	Read func(path string) []byte
}

func (s System) variable(name string) string {
	for _, entry := range slices.Backward(s.Env) { // the last of a repeated name counts, as for programs
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// A registry is a kind of place that packages come from, and where its address is configured.
// Only the files of the user and the machine count: a session may write those of its workspace.
type registry struct {
	public    []string       // hosts that serve where nothing is configured
	variables []string       // hold addresses, or names and addresses
	files     []string       // relative to the home directory, absolute, or of a variable: "$NAME" or "$NAME/file"
	line      *regexp.Regexp // the lines of a file that count
	beside    map[string]string
}

var registries = []registry{
	{
		public: []string{"pypi.org", "files.pythonhosted.org"},
		variables: []string{
			"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS",
			"UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS",
		},
		files: []string{
			"/etc/pip.conf", ".pip/pip.conf", ".config/pip/pip.conf", "$XDG_CONFIG_HOME/pip/pip.conf", "$PIP_CONFIG_FILE",
			"/etc/uv/uv.toml", ".config/uv/uv.toml", "$XDG_CONFIG_HOME/uv/uv.toml", "$UV_CONFIG_FILE",
		},
		line:   regexp.MustCompile(`(?i)^\s*(extra[-_])?index[-_]url|^\s*find[-_]links|^\s*url\s*=|^\s*(index|default[-_]index)\s*=|^\s+\S*https?://`),
		beside: map[string]string{"pypi.org": "files.pythonhosted.org", "test.pypi.org": "test-files.pythonhosted.org"},
	},
	{
		public:    []string{"registry.npmjs.org"},
		variables: []string{"NPM_CONFIG_REGISTRY", "npm_config_registry", "YARN_NPM_REGISTRY_SERVER"},
		files:     []string{"/etc/npmrc", "/usr/etc/npmrc", ".npmrc", "$NPM_CONFIG_USERCONFIG", "$npm_config_userconfig"},
		line:      regexp.MustCompile(`^\s*(@[\w.-]+:)?registry\s*=`),
	},
	{
		public:    []string{"cloud.r-project.org", "cran.r-project.org", "cran.rstudio.com"},
		variables: []string{"CRAN", "R_REPOSITORIES_URL", "RENV_CONFIG_REPOS_OVERRIDE"},
		files:     []string{"/etc/R/Rprofile.site", "/usr/lib/R/etc/Rprofile.site", "/usr/local/lib/R/etc/Rprofile.site", ".Rprofile", "$R_PROFILE", "$R_PROFILE_USER", "$R_HOME/etc/Rprofile.site"},
		line:      regexp.MustCompile(`(?i)^[^#]*(repos|CRAN)\b`),
	},
}

var address = regexp.MustCompile(`https?://(\[[0-9a-fA-F:.]+\])?[^\s"',;)\]}<>]+`)

// Expand replaces workers.PackageHosts in a list by the registries' hosts.
func Expand(hosts []string, s System) []string {
	var all []string
	for _, h := range hosts {
		if h != workers.PackageHosts {
			all = append(all, h)
			continue
		}
		for _, r := range registries {
			all = append(all, r.hosts(s)...)
		}
	}
	return all
}

// hosts returns the hosts that are configured, with their ports, or else the public ones.
func (r registry) hosts(s System) []string {
	var texts []string
	for _, v := range r.variables {
		texts = append(texts, s.variable(v))
	}
	for _, f := range r.files {
		texts = append(texts, r.linesIn(s.Read(s.path(f)))...)
	}
	var found []string
	add := func(h string) {
		if !slices.Contains(found, h) {
			found = append(found, h)
		}
	}
	for _, a := range address.FindAllString(strings.Join(texts, "\n"), -1) {
		if h, ok := hostOf(a); ok {
			add(h)
			if name, port, ok := strings.Cut(h, ":"); ok && r.beside[name] != "" {
				add(r.beside[name] + ":" + port)
			}
		}
	}
	if len(found) == 0 {
		for _, name := range r.public {
			add(name + ":443")
		}
	}
	return found
}

// hostOf returns the pattern of an address: its host and port.
func hostOf(address string) (string, bool) {
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

// path returns where a file of the configuration is, or "".
func (s System) path(file string) string {
	if name, ok := strings.CutPrefix(file, "$"); ok {
		name, rest, _ := strings.Cut(name, "/")
		dir := s.variable(name)
		if !filepath.IsAbs(dir) { // a path in the workspace
			return ""
		}
		return filepath.Join(dir, rest)
	}
	if strings.HasPrefix(file, "/") {
		return filepath.Join(s.Root, file)
	}
	if home := s.variable("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, file)
	}
	return ""
}

// linesIn returns the lines of a text that name addresses.
func (r registry) linesIn(text []byte) (lines []string) {
	for line := range strings.Lines(string(text)) {
		if r.line.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}
