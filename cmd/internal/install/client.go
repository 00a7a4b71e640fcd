package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/origin"
)

// A Client is a program that starts MCP servers.
type Client struct {
	Name  string // as people type it: "claude-desktop"
	Title string // its official name

	programs []string // its commands
	file     func(Places) string
	project  string // its file below a project; "" when it has none
	format   editor
	servers  func(tree map[string]any) []string // the keys of the table of servers
	settings func(Server) []setting
	own      func(*change) []step // its own command, where that works better
	state    bool                 // it often writes its file itself
	approves string               // the setting that lets tools run unasked; "" when it has none
	reload   string               // how to make it read the file again

	// home is a directory that shows that the client is installed; nil means the
	// directory of its file.
	home func(Places) string

	// env is the setting that passes variables of its environment on; nil when there is
	// none.
	env  *handover
	unit float64 // the unit of its setting "timeout", in seconds; 0 means milliseconds
}

// A Server describes the server that a client must start.
type Server struct {
	Name    string // the entry's name
	Command string
	Args    []string
	Approve bool // the client need not ask before a tool runs

	// Env are the names of variables of the client's environment that the server gets.
	Env []string
}

// Places are the directories of clients' files.
type Places struct {
	Home    string // of the person
	Config  string // for applications: ~/.config, ~/Library/Application Support, %AppData%
	XDG     string // for those that use ~/.config everywhere
	Project string // the directory for project files
	Getenv  func(string) string
}

// Here returns the places of this person's clients.
func Here() (Places, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Places{}, fmt.Errorf("cannot tell where clients keep their configuration: %w", err)
	}
	p := Places{Home: home, Getenv: os.Getenv, XDG: os.Getenv("XDG_CONFIG_HOME")}
	if !filepath.IsAbs(p.XDG) {
		p.XDG = filepath.Join(home, ".config")
	}
	if p.Config, err = os.UserConfigDir(); err != nil {
		p.Config = p.XDG
	}
	p.Project, err = os.Getwd()
	return p, err
}

// or returns the directory that an environment variable names, or its default.
func (p Places) or(variable, otherwise string) string {
	if dir := p.Getenv(variable); dir != "" {
		return dir
	}
	return otherwise
}

func under(keys ...string) func(map[string]any) []string {
	return func(map[string]any) []string { return keys }
}

// Clients returns the clients that can be configured, in the order of the help.
func Clients() []Client {
	return []Client{{
		Name: "claude", Title: "Claude Code", programs: []string{"claude"},
		file:    func(p Places) string { return filepath.Join(p.or("CLAUDE_CONFIG_DIR", p.Home), ".claude.json") },
		project: ".mcp.json", format: jsonc{}, servers: under("mcpServers"),
		settings: func(s Server) []setting {
			return append(typed("stdio", s), setting{key: "alwaysLoad", value: true})
		},
		own: claudeCommands, state: true, reload: "its next session",
	}, {
		Name: "codex", Title: "Codex", programs: []string{"codex"},
		file: func(p Places) string {
			return filepath.Join(p.or("CODEX_HOME", filepath.Join(p.Home, ".codex")), "config.toml")
		},
		project: filepath.Join(".codex", "config.toml"), format: tomlText{}, servers: under("mcp_servers"),
		settings: codexSettings, approves: "default_tools_approval_mode", reload: "its next session",
		env: &handover{key: "env_vars"},
	}, {
		Name: "gemini", Title: "Gemini CLI", programs: []string{"gemini"},
		file:    func(p Places) string { return filepath.Join(p.Home, ".gemini", "settings.json") },
		project: filepath.Join(".gemini", "settings.json"), format: jsonc{}, servers: under("mcpServers"),
		settings: geminiSettings, approves: "trust", reload: "its next session",
		env: &handover{"env", "$%s"},
	}, {
		Name: "qwen", Title: "Qwen Code", programs: []string{"qwen"},
		file:    func(p Places) string { return filepath.Join(p.Home, ".qwen", "settings.json") },
		project: filepath.Join(".qwen", "settings.json"), format: jsonc{}, servers: under("mcpServers"),
		settings: geminiSettings, approves: "trust", reload: "its next session",
		env: &handover{"env", "$%s"},
	}, {
		Name: "copilot", Title: "Copilot CLI", programs: []string{"copilot"},
		file: func(p Places) string {
			return filepath.Join(p.or("COPILOT_HOME", filepath.Join(p.Home, ".copilot")), "mcp-config.json")
		},
		project: filepath.Join(".github", "mcp.json"), format: jsonc{}, servers: under("mcpServers"),
		settings: func(s Server) []setting {
			return append(typed("local", s), setting{key: "tools", value: []string{"*"}})
		},
		reload: "its next session",
	}, {
		Name: "cline", Title: "Cline", programs: []string{"cline"},
		file: func(p Places) string {
			return filepath.Join(p.Home, ".cline", "data", "settings", "cline_mcp_settings.json")
		},
		home:   func(p Places) string { return filepath.Join(p.Home, ".cline") },
		format: jsonc{}, servers: under("mcpServers"), unit: 1,
		settings: func(s Server) []setting { return append(plain(s), setting{key: "timeout", value: callTimeout}) },
		reload:   "once",
	}, {
		Name: "continue", Title: "Continue", programs: []string{"cn"},
		file:    func(p Places) string { return filepath.Join(p.Home, ".continue", "mcpServers", "turnstone.json") },
		home:    func(p Places) string { return filepath.Join(p.Home, ".continue") },
		project: filepath.Join(".continue", "mcpServers", "turnstone.json"), format: jsonc{}, servers: under("mcpServers"),
		settings: plain, reload: "a reload of its configuration",
	}, {
		Name: "cursor", Title: "Cursor", programs: []string{"cursor", "cursor-agent"},
		file:    func(p Places) string { return filepath.Join(p.Home, ".cursor", "mcp.json") },
		project: filepath.Join(".cursor", "mcp.json"), format: jsonc{}, servers: under("mcpServers"),
		settings: func(s Server) []setting { return typed("stdio", s) }, reload: "a restart, or Refresh in its MCP settings",
		env: &handover{"env", "${env:%s}"},
	}, {
		Name: "vscode", Title: "VS Code", programs: []string{"code"},
		file:    func(p Places) string { return filepath.Join(p.Config, "Code", "User", "mcp.json") },
		project: filepath.Join(".vscode", "mcp.json"), format: jsonc{}, servers: under("servers"),
		settings: func(s Server) []setting { return typed("stdio", s) },
		own:      codeCommands, reload: "its next chat, or the command MCP: List Servers",
		env: &handover{"env", "${env:%s}"},
	}, {
		Name: "zed", Title: "Zed", programs: []string{"zed", "zeditor"},
		file:    func(p Places) string { return filepath.Join(zedDir(p), "settings.json") },
		project: filepath.Join(".zed", "settings.json"), format: jsonc{}, servers: under("context_servers"),
		settings: plain, reload: "once",
	}, {
		Name: "windsurf", Title: "Windsurf", programs: []string{"windsurf"},
		file:   func(p Places) string { return filepath.Join(p.Home, ".codeium", "windsurf", "mcp_config.json") },
		format: jsonc{}, servers: under("mcpServers"), settings: plain, reload: "a restart, or Refresh in its MCP settings",
	}, {
		Name: "opencode", Title: "OpenCode", programs: []string{"opencode"},
		file: func(p Places) string {
			dir := filepath.Join(p.XDG, "opencode")
			if c := filepath.Join(dir, "opencode.jsonc"); exists(c) {
				return c
			}
			return filepath.Join(dir, "opencode.json")
		},
		project: "opencode.json", format: jsonc{}, servers: openCodeServers,
		settings: func(s Server) []setting {
			return []setting{
				{"type", "local", true},
				{"command", append([]string{s.Command}, s.Args...), true},
			}
		},
		reload: "a restart",
	}, {
		Name: "claude-desktop", Title: "Claude Desktop",
		file:   func(p Places) string { return filepath.Join(claudeDir(p), "claude_desktop_config.json") },
		format: jsonc{}, servers: under("mcpServers"), settings: plain, reload: "a restart",
	}}
}

// Approves reports whether the client can be told to let tools run unasked.
func (c Client) Approves() bool { return c.approves != "" }

// HasProject reports whether the client has a file for a project.
func (c Client) HasProject() bool { return c.project != "" }

// Reload says how to make the client read its file again.
func (c Client) Reload() string { return c.reload }

// Named finds a client by its name.
func Named(name string) (Client, bool) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return all[i], true
}

// callTimeout bounds a client's wait for an answer, in seconds. The server never needs more,
// because a call returns the output so far when its own time is over.
const callTimeout = 630

func plain(s Server) []setting {
	return []setting{{"command", s.Command, true}, {"args", s.Args, true}}
}

func typed(kind string, s Server) []setting {
	return append([]setting{{"type", kind, true}}, plain(s)...)
}

// codexSettings also name the variables that decide which interpreter is found:
// Codex starts servers with a bare environment.
func codexSettings(s Server) []setting {
	list := append(plain(s),
		setting{key: "env_vars", value: []string{
			"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_VERSION", "PYENV_ROOT", "PYTHONPATH", "PY_PYTHON",
			"R_HOME", "R_LIBS", "R_LIBS_USER", "R_LIBS_SITE", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "TMPDIR",
		}},
		setting{key: "tool_timeout_sec", value: callTimeout})
	if s.Approve {
		list = append(list, setting{"default_tools_approval_mode", "approve", true})
	}
	return list
}

// geminiSettings are also those of Qwen Code, which is made from it.
func geminiSettings(s Server) []setting {
	list := append(plain(s), setting{key: "timeout", value: callTimeout * 1000})
	if s.Approve {
		list = append(list, setting{key: "trust", value: true, fixed: true})
	}
	return list
}

// A handover is a setting that passes variables of the client's environment on.
type handover struct {
	key  string
	form string // of a value in a table by name; "" when the setting is a list of names
}

// HandsOver reports whether the client can be told which variables the server gets.
func (c Client) HandsOver() bool { return c.env != nil }

// names returns the variables that an entry passes on, beyond those of all entries.
func (h *handover) names(has any, all []setting) (names []string) {
	switch has := has.(type) {
	case []any:
		for _, v := range has {
			name, _ := v.(string)
			if !slices.ContainsFunc(all, func(s setting) bool {
				list, _ := s.value.([]string)
				return s.key == h.key && slices.Contains(list, name)
			}) {
				names = append(names, name)
			}
		}
	case map[string]any:
		for name, v := range has {
			if v == fmt.Sprintf(h.form, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
	}
	return names
}

// settingsWith returns the settings of a server. Its variables are added to those that all
// servers get and those that the entry has already.
func (c Client) settingsWith(s Server, entry map[string]any) []setting {
	list := c.settings(s)
	if c.env == nil || c.env.form != "" || len(s.Env) == 0 {
		return list
	}
	i := slices.IndexFunc(list, func(s setting) bool { return s.key == c.env.key })
	names := slices.Clone(list[i].value.([]string))
	if has, ok := entry[c.env.key].([]any); ok {
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
	list[i].value, list[i].fixed = names, true
	return list
}

// variables returns the settings that an entry lacks in the client's table of variables; nil
// when the client has no such table.
func (c Client) variables(s Server, entry map[string]any) (list []setting) {
	if c.env == nil || c.env.form == "" {
		return nil
	}
	has, _ := entry[c.env.key].(map[string]any)
	for _, name := range s.Env {
		if value := fmt.Sprintf(c.env.form, name); has[name] != value {
			list = append(list, setting{name, value, true})
		}
	}
	return list
}

// openCodeServers: version 2 has servers of its own below mcp, and still reads the
// form of version 1. A file is kept in the form that it has.
func openCodeServers(tree map[string]any) []string {
	v, _ := lookup(tree, []string{"mcp", "servers"})
	if servers, ok := v.(map[string]any); ok && servers["type"] == nil && servers["enabled"] == nil && servers["command"] == nil {
		return []string{"mcp", "servers"}
	}
	return []string{"mcp"}
}

// Found names the sign that the client is installed; "" without one. looked lists the places
// that it checked.
func (c Client) Found(p Places) (by string, looked []string) {
	for _, name := range c.programs {
		looked = append(looked, name)
		if path, err := exec.LookPath(name); err == nil {
			return path, looked
		}
	}
	file := c.file(p)
	if exists(file) {
		return file, looked
	}
	// A home directory proves nothing, nor does the directory of all applications.
	dir := filepath.Dir(file)
	if c.home != nil {
		dir = c.home(p)
	}
	if dir != p.Home {
		looked = append(looked, dir)
		if exists(dir) {
			return dir, looked
		}
		return "", looked
	}
	return "", append(looked, file)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// An Entry is one of our servers in a client's file.
type Entry struct {
	Name     string
	Command  string
	Args     []string
	Settings map[string]any // all of them
	unit     float64        // see Client
}

// target returns the file that a scope names.
func (c Client) target(p Places, project bool) (string, error) {
	if !project {
		return c.file(p), nil
	}
	if c.project == "" {
		return "", fmt.Errorf("%s has no configuration for a project", c.Title)
	}
	return filepath.Join(p.Project, c.project), nil
}

// Look returns the file of a client, and its entries that start this program or have its name.
// A missing file is no error.
func (c Client) Look(p Places, project bool) (file string, entries []Entry, err error) {
	file, err = c.target(p, project)
	if err != nil {
		return "", nil, err
	}
	s, err := readFile(file)
	if err != nil || !s.there {
		return file, nil, err
	}
	tree, err := c.format.parse(s.text)
	if err != nil {
		return file, nil, describe(file, err)
	}
	v, _ := lookup(tree, c.servers(tree))
	servers, _ := v.(map[string]any)
	for name, v := range servers {
		if settings, ok := v.(map[string]any); ok {
			e := entryOf(name, settings)
			e.unit = c.unit
			if e.ours("") {
				entries = append(entries, e)
			}
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return file, entries, nil
}

func entryOf(name string, settings map[string]any) Entry {
	e := Entry{Name: name, Settings: settings}
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

// ours reports whether an entry starts this program. It compares arguments and the name of the
// program file, which survives a move.
func (e Entry) ours(command string) bool {
	args := e.Args
	if e.ByRunner() {
		args = args[slices.IndexFunc(args, isPackage)+1:]
		return len(args) > 0 && args[0] == "mcp"
	}
	if len(args) == 0 || args[0] != "mcp" {
		return false
	}
	base := strings.TrimSuffix(filepath.Base(e.Command), ".exe")
	return base == "repl" || base == "turnstone" || command != "" && base == strings.TrimSuffix(filepath.Base(command), ".exe")
}

// ByRunner reports whether the entry starts this program by uvx or npx, which find it by its name.
func (e Entry) ByRunner() bool {
	base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(e.Command), ".exe"), ".cmd")
	return (base == "uvx" || base == "npx") && slices.ContainsFunc(e.Args, isPackage)
}

// isPackage reports whether a word names this program for uvx or npx: its name, or that and a version.
func isPackage(word string) bool {
	name, _, _ := strings.Cut(word, "@")
	return name == origin.Package
}

// Seconds returns a setting as a time: for Codex and Cline in seconds, elsewhere in
// milliseconds.
func (e Entry) Seconds() (seconds float64, set bool) {
	timeout := 1000.0
	if e.unit != 0 {
		timeout = 1 / e.unit
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

// describe names the file of an error.
func describe(file string, err error) error {
	if _, ok := errors.AsType[*unreadable](err); ok {
		return fmt.Errorf("%s is left as it is. %w. Correct it, and try again", file, err)
	}
	return fmt.Errorf("%s is left as it is: %w", file, err)
}
