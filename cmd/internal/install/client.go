package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/installsource"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

// A ClientConfig is an MCP client: a program that starts MCP servers from a configuration file.
type ClientConfig struct {
	Name  string // the argument on the command line: "claude-desktop"
	Title string // its official name

	programs        []string // its commands
	file            func(ConfigDirs) string
	project         string // its file below a project; "" if it has none
	format          configFormat
	servers         func(tree map[string]any) []string // the keys of the table of servers
	settings        func(ServerSpec) []configSetting
	ownCommands     func(*configChange) []clientCommand // its own configuration command, if that works better than editing the file
	rewritesFile    bool                                // it often rewrites its file itself
	approvalSetting string                              // the setting that lets tools run without asking; "" if it has none
	reloadHint      string                              // how to make it read the file again

	// markerDir is a directory whose existence shows that the client is installed. nil means the
	// directory of its file.
	markerDir func(ConfigDirs) string

	// envPassthrough is the setting that passes on variables of its environment; nil if it has
	// none.
	envPassthrough *envPassthrough
	timeoutUnit    float64 // the unit of its setting "timeout", in seconds; 0 means milliseconds
}

// A ServerSpec describes an MCP server for a client to start.
type ServerSpec struct {
	Name        string // the name of its entry
	Command     string
	Args        []string
	AutoApprove bool // the client may run tools without asking

	// Env lists the variables of the client's environment that the server gets.
	Env []string
}

// ConfigDirs are the directories with the clients' configuration files.
type ConfigDirs struct {
	Home    string // of the user
	Config  string // for applications: ~/.config, ~/Library/Application Support, %AppData%
	XDG     string // for programs that use ~/.config everywhere
	Project string // the directory for project files
	Getenv  func(string) string
}

// FindConfigDirs returns the directories of this user's clients.
func FindConfigDirs() (ConfigDirs, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return ConfigDirs{}, fmt.Errorf("cannot find the directory of the clients' configuration: %w", err)
	}
	p := ConfigDirs{Home: home, Getenv: os.Getenv, XDG: userdirs.Config(os.Getenv, home)}
	if p.Config, err = os.UserConfigDir(); err != nil {
		p.Config = p.XDG
	}
	p.Project, err = os.Getwd()
	return p, err
}

// dirFromEnv returns the directory that an environment variable names, or its default.
func (d ConfigDirs) dirFromEnv(variable, otherwise string) string {
	if dir := d.Getenv(variable); dir != "" {
		return dir
	}
	return otherwise
}

func keysAt(keys ...string) func(map[string]any) []string {
	return func(map[string]any) []string { return keys }
}

// Clients returns the clients that can be configured, in the order of the help.
func Clients() []ClientConfig {
	return slices.Concat(terminalAgents(), codeEditors(), []ClientConfig{openCodeClient(), claudeDesktopClient()})
}

// terminalAgents returns the clients that are coding agents in a terminal, except OpenCode.
func terminalAgents() []ClientConfig {
	return []ClientConfig{{
		Name: "claude", Title: "Claude Code", programs: []string{"claude"},
		file: func(p ConfigDirs) string {
			return filepath.Join(p.dirFromEnv("CLAUDE_CONFIG_DIR", p.Home), ".claude.json")
		},
		project: ".mcp.json", format: jsonFormat{}, servers: keysAt("mcpServers"),
		settings: func(s ServerSpec) []configSetting {
			return append(typedSettings("stdio", s), configSetting{key: "alwaysLoad", value: true})
		},
		ownCommands: planClaudeCommands, rewritesFile: true, reloadHint: "its next session",
	}, {
		Name: "codex", Title: "Codex", programs: []string{"codex"},
		file: func(p ConfigDirs) string {
			return filepath.Join(p.dirFromEnv("CODEX_HOME", filepath.Join(p.Home, ".codex")), "config.toml")
		},
		project: filepath.Join(".codex", "config.toml"), format: tomlFormat{}, servers: keysAt("mcp_servers"),
		settings: codexSettings, approvalSetting: "default_tools_approval_mode", reloadHint: "its next session",
		envPassthrough: &envPassthrough{key: "env_vars"},
	}, {
		Name: "gemini", Title: "Gemini CLI", programs: []string{"gemini"},
		file:    func(p ConfigDirs) string { return filepath.Join(p.Home, ".gemini", "settings.json") },
		project: filepath.Join(".gemini", "settings.json"), format: jsonFormat{}, servers: keysAt("mcpServers"),
		settings: geminiSettings, approvalSetting: "trust", reloadHint: "its next session",
		envPassthrough: &envPassthrough{"env", "$%s"},
	}, {
		Name: "qwen", Title: "Qwen Code", programs: []string{"qwen"},
		file:    func(p ConfigDirs) string { return filepath.Join(p.Home, ".qwen", "settings.json") },
		project: filepath.Join(".qwen", "settings.json"), format: jsonFormat{}, servers: keysAt("mcpServers"),
		settings: geminiSettings, approvalSetting: "trust", reloadHint: "its next session",
		envPassthrough: &envPassthrough{"env", "$%s"},
	}, {
		Name: "copilot", Title: "Copilot CLI", programs: []string{"copilot"},
		file: func(p ConfigDirs) string {
			return filepath.Join(p.dirFromEnv("COPILOT_HOME", filepath.Join(p.Home, ".copilot")), "mcp-config.json")
		},
		project: filepath.Join(".github", "mcp.json"), format: jsonFormat{}, servers: keysAt("mcpServers"),
		settings: func(s ServerSpec) []configSetting {
			return append(typedSettings("local", s), configSetting{key: "tools", value: []string{"*"}})
		},
		reloadHint: "its next session",
	}, {
		Name: "cline", Title: "Cline", programs: []string{"cline"},
		file: func(p ConfigDirs) string {
			return filepath.Join(p.Home, ".cline", "data", "settings", "cline_mcp_settings.json")
		},
		markerDir: func(p ConfigDirs) string { return filepath.Join(p.Home, ".cline") },
		format:    jsonFormat{}, servers: keysAt("mcpServers"), timeoutUnit: 1,
		settings: func(s ServerSpec) []configSetting {
			return append(plainSettings(s), configSetting{key: "timeout", value: callTimeoutSeconds})
		},
		reloadHint: "once",
	}, {
		Name: "continue", Title: "Continue", programs: []string{"cn"},
		file:      func(p ConfigDirs) string { return filepath.Join(p.Home, ".continue", "mcpServers", "turnstone.json") },
		markerDir: func(p ConfigDirs) string { return filepath.Join(p.Home, ".continue") },
		project:   filepath.Join(".continue", "mcpServers", "turnstone.json"), format: jsonFormat{}, servers: keysAt("mcpServers"),
		settings: plainSettings, reloadHint: "a reload of its configuration",
	}}
}

// codeEditors returns the clients that are code editors.
func codeEditors() []ClientConfig {
	return []ClientConfig{{
		Name: "cursor", Title: "Cursor", programs: []string{"cursor", "cursor-agent"},
		file:    func(p ConfigDirs) string { return filepath.Join(p.Home, ".cursor", "mcp.json") },
		project: filepath.Join(".cursor", "mcp.json"), format: jsonFormat{}, servers: keysAt("mcpServers"),
		settings: func(s ServerSpec) []configSetting { return typedSettings("stdio", s) }, reloadHint: "a restart, or Refresh in its MCP settings",
		envPassthrough: &envPassthrough{"env", "${env:%s}"},
	}, {
		Name: "vscode", Title: "VS Code", programs: []string{"code"},
		file:    func(p ConfigDirs) string { return filepath.Join(p.Config, "Code", "User", "mcp.json") },
		project: filepath.Join(".vscode", "mcp.json"), format: jsonFormat{}, servers: keysAt("servers"),
		settings:    func(s ServerSpec) []configSetting { return typedSettings("stdio", s) },
		ownCommands: planCodeCommands, reloadHint: "its next chat, or the command MCP: List Servers",
		envPassthrough: &envPassthrough{"env", "${env:%s}"},
	}, {
		Name: "zed", Title: "Zed", programs: []string{"zed", "zeditor"},
		file:    func(p ConfigDirs) string { return filepath.Join(zedDir(p), "settings.json") },
		project: filepath.Join(".zed", "settings.json"), format: jsonFormat{}, servers: keysAt("context_servers"),
		settings: plainSettings, reloadHint: "once",
	}, {
		Name: "windsurf", Title: "Windsurf", programs: []string{"windsurf"},
		file:   func(p ConfigDirs) string { return filepath.Join(p.Home, ".codeium", "windsurf", "mcp_config.json") },
		format: jsonFormat{}, servers: keysAt("mcpServers"), settings: plainSettings, reloadHint: "a restart, or Refresh in its MCP settings",
	}}
}

func openCodeClient() ClientConfig {
	return ClientConfig{
		Name: "opencode", Title: "OpenCode", programs: []string{"opencode"},
		file: func(p ConfigDirs) string {
			dir := filepath.Join(p.XDG, "opencode")
			if c := filepath.Join(dir, "opencode.jsonc"); paths.Exists(c) {
				return c
			}
			return filepath.Join(dir, "opencode.json")
		},
		project: "opencode.json", format: jsonFormat{}, servers: openCodeServers,
		settings: func(s ServerSpec) []configSetting {
			return []configSetting{
				{"type", "local", true},
				{"command", append([]string{s.Command}, s.Args...), true},
			}
		},
		reloadHint: "a restart",
	}
}

func claudeDesktopClient() ClientConfig {
	return ClientConfig{
		Name: "claude-desktop", Title: "Claude Desktop",
		file:   func(p ConfigDirs) string { return filepath.Join(claudeDir(p), "claude_desktop_config.json") },
		format: jsonFormat{}, servers: keysAt("mcpServers"), settings: plainSettings, reloadHint: "a restart",
	}
}

// CanAutoApprove reports whether the client has a setting to run tools without asking.
func (c ClientConfig) CanAutoApprove() bool { return c.approvalSetting != "" }

// HasProject reports whether the client has a file for a project.
func (c ClientConfig) HasProject() bool { return c.project != "" }

// ReloadHint says how to make the client read its file again.
func (c ClientConfig) ReloadHint() string { return c.reloadHint }

// FindClient returns the client with the given name.
func FindClient(name string) (ClientConfig, bool) {
	all := Clients()
	i := slices.IndexFunc(all, func(c ClientConfig) bool { return c.Name == name })
	if i < 0 {
		return ClientConfig{}, false
	}
	return all[i], true
}

// callTimeoutSeconds bounds a client's wait for an answer, in seconds. The server never needs more,
// because a call returns the output so far when its own timeout ends.
const callTimeoutSeconds = 630

func plainSettings(s ServerSpec) []configSetting {
	return []configSetting{{"command", s.Command, true}, {"args", s.Args, true}}
}

func typedSettings(kind string, s ServerSpec) []configSetting {
	return append([]configSetting{{"type", kind, true}}, plainSettings(s)...)
}

// codexSettings also lists the variables that decide which interpreter is found, because Codex
// starts servers with a bare environment.
func codexSettings(s ServerSpec) []configSetting {
	list := append(plainSettings(s),
		configSetting{key: "env_vars", value: []string{
			"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_VERSION", "PYENV_ROOT", "PYTHONPATH", "PY_PYTHON",
			"R_HOME", "R_LIBS", "R_LIBS_USER", "R_LIBS_SITE", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "TMPDIR",
		}},
		configSetting{key: "tool_timeout_sec", value: callTimeoutSeconds})
	if s.AutoApprove {
		list = append(list, configSetting{"default_tools_approval_mode", "approve", true})
	}
	return list
}

// geminiSettings also apply to Qwen Code, which is a fork of it.
func geminiSettings(s ServerSpec) []configSetting {
	list := append(plainSettings(s), configSetting{key: "timeout", value: callTimeoutSeconds * 1000})
	if s.AutoApprove {
		list = append(list, configSetting{key: "trust", value: true, mustMatch: true})
	}
	return list
}

// An envPassthrough is a setting that passes on variables of the client's environment.
type envPassthrough struct {
	key       string
	valueForm string // of a value in a table by name; "" if the setting is a list of names
}

// PassesEnv reports whether the client can be told which variables the server gets.
func (c ClientConfig) PassesEnv() bool { return c.envPassthrough != nil }

// variableNames returns the variables that an entry passes on in addition to the variables of all entries.
func (p *envPassthrough) variableNames(has any, all []configSetting) (names []string) {
	switch has := has.(type) {
	case []any:
		for _, v := range has {
			name, _ := v.(string)
			if !slices.ContainsFunc(all, func(s configSetting) bool {
				list, _ := s.value.([]string)
				return s.key == p.key && slices.Contains(list, name)
			}) {
				names = append(names, name)
			}
		}
	case map[string]any:
		for name, v := range has {
			if v == fmt.Sprintf(p.valueForm, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	return names
}

// settingsWith returns the settings of a server. Its variables are added to the variables that all
// servers get and to those in the entry.
func (c ClientConfig) settingsWith(s ServerSpec, entry map[string]any) []configSetting {
	list := c.settings(s)
	if c.envPassthrough == nil || c.envPassthrough.valueForm != "" || len(s.Env) == 0 {
		return list
	}
	i := slices.IndexFunc(list, func(s configSetting) bool { return s.key == c.envPassthrough.key })
	names := slices.Clone(list[i].value.([]string))
	if has, ok := entry[c.envPassthrough.key].([]any); ok {
		names = names[:0]
		for _, v := range has {
			name, _ := v.(string)
			names = append(names, name)
		}
	}
	for _, name := range s.Env {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	list[i].value, list[i].mustMatch = names, true
	return list
}

// envSettings returns the settings that an entry lacks in the client's table of variables; nil if
// the client has no such table.
func (c ClientConfig) envSettings(s ServerSpec, entry map[string]any) (list []configSetting) {
	if c.envPassthrough == nil || c.envPassthrough.valueForm == "" {
		return nil
	}
	has, _ := entry[c.envPassthrough.key].(map[string]any)
	for _, name := range s.Env {
		if value := fmt.Sprintf(c.envPassthrough.valueForm, name); has[name] != value {
			list = append(list, configSetting{name, value, true})
		}
	}
	return list
}

// openCodeServers returns the keys of the table of servers. OpenCode 2 has a separate table below
// mcp, but still reads the form of version 1. A file keeps its form.
func openCodeServers(tree map[string]any) []string {
	v, _ := lookupKeys(tree, []string{"mcp", "servers"})
	if servers, ok := v.(map[string]any); ok && servers["type"] == nil && servers["enabled"] == nil && servers["command"] == nil {
		return []string{"mcp", "servers"}
	}
	return []string{"mcp"}
}

// FindInstalled returns the evidence that the client is installed, or "". checked lists the
// programs and paths that it looked for.
func (c ClientConfig) FindInstalled(p ConfigDirs) (by string, checked []string) {
	for _, name := range c.programs {
		checked = append(checked, name)
		if path, err := exec.LookPath(name); err == nil {
			return path, checked
		}
	}
	file := c.file(p)
	if paths.Exists(file) {
		return file, checked
	}
	// A home directory proves nothing, nor does the shared directory of all applications.
	dir := filepath.Dir(file)
	if c.markerDir != nil {
		dir = c.markerDir(p)
	}
	if dir != p.Home {
		checked = append(checked, dir)
		if paths.Exists(dir) {
			return dir, checked
		}
		return "", checked
	}
	return "", append(checked, file)
}

// A ServerEntry describes one entry in a client's file that starts this program or has its name.
type ServerEntry struct {
	Name        string
	Command     string
	Args        []string
	Settings    map[string]any // all of them
	timeoutUnit float64        // see Client
}

// configFile returns the file of a scope.
func (c ClientConfig) configFile(p ConfigDirs, project bool) (string, error) {
	if !project {
		return c.file(p), nil
	}
	if c.project == "" {
		return "", fmt.Errorf("%s has no configuration for a project", c.Title)
	}
	return filepath.Join(p.Project, c.project), nil
}

// FindEntries returns the file of a client, and its entries that start this program or have its
// name. A missing file is not an error.
func (c ClientConfig) FindEntries(p ConfigDirs, project bool) (file string, entries []ServerEntry, err error) {
	file, err = c.configFile(p, project)
	if err != nil {
		return "", nil, err
	}
	s, err := readFile(file)
	if err != nil || !s.exists {
		return file, nil, err
	}
	tree, err := c.format.parse(s.text)
	if err != nil {
		return file, nil, fileError(file, err)
	}
	v, _ := lookupKeys(tree, c.servers(tree))
	servers, _ := v.(map[string]any)
	for name, v := range servers {
		if settings, ok := v.(map[string]any); ok {
			e := parseEntry(name, settings)
			e.timeoutUnit = c.timeoutUnit
			if e.isOurs("") {
				entries = append(entries, e)
			}
		}
	}
	sort.SliceStable(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return file, entries, nil
}

func parseEntry(name string, settings map[string]any) ServerEntry {
	e := ServerEntry{Name: name, Settings: settings}
	words := func(v any) (list []string) {
		items, _ := v.([]any)
		for _, item := range items {
			s, _ := item.(string)
			list = append(list, s)
		}
		return list
	}
	if all := words(settings["command"]); len(all) > 0 {
		e.Command, e.Args = all[0], all[1:]
		return e
	}
	e.Command, _ = settings["command"].(string)
	e.Args = words(settings["args"])
	return e
}

// isOurs reports whether an entry starts this program. It compares arguments and the name of the
// program file, which survives a move.
func (e ServerEntry) isOurs(command string) bool {
	args := e.Args
	if e.UsesRunner() {
		args = args[slices.IndexFunc(args, isPackage)+1:]
		return len(args) > 0 && args[0] == "mcp"
	}
	if len(args) == 0 || args[0] != "mcp" {
		return false
	}
	base := strings.TrimSuffix(filepath.Base(e.Command), ".exe")
	return base == "repl" || base == "turnstone" || command != "" && base == strings.TrimSuffix(filepath.Base(command), ".exe")
}

// UsesRunner reports whether the entry starts this program through uvx or npx, which find it by its
// name.
func (e ServerEntry) UsesRunner() bool {
	base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(e.Command), ".exe"), ".cmd")
	return (base == "uvx" || base == "npx") && slices.ContainsFunc(e.Args, isPackage)
}

// isPackage reports whether a word names this program for uvx or npx, with or without a version.
func isPackage(word string) bool {
	name, _, _ := strings.Cut(word, "@")
	return name == installsource.Package
}

// TimeoutSeconds returns the timeout setting of an entry. Codex and Cline have it in seconds,
// others in milliseconds.
func (e ServerEntry) TimeoutSeconds() (seconds float64, set bool) {
	timeout := 1000.0
	if e.timeoutUnit != 0 {
		timeout = 1 / e.timeoutUnit
	}
	for key, unit := range map[string]float64{"tool_timeout_sec": 1, "timeout": timeout} {
		switch v := e.Settings[key].(type) {
		case json.Number:
			f, err := v.Float64()
			return f / unit, err == nil
		case int64:
			return float64(v) / unit, true
		case float64:
			return v / unit, true
		}
	}
	return 0, false
}

// fileError adds the name of the unchanged file to an error.
func fileError(file string, err error) error {
	if _, ok := errors.AsType[*formatError](err); ok {
		return fmt.Errorf("%s was not changed: %w; correct it, and try again", file, err)
	}
	return fmt.Errorf("%s was not changed: %w", file, err)
}
