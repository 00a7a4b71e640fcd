package mcpclient

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/install"
)

// depthVariable is set in the environment of the servers started here. A program that finds it in
// its own environment is such a server, and starts none itself. Otherwise two servers that
// configure each other would start each other forever.
const depthVariable = "TURNSTONE_SERVERS_DEPTH"

// maxServers bounds the servers of one program.
const maxServers = 100

// A ServerConfig describes how to start or reach one server.
type ServerConfig struct {
	Name    string // in the configuration
	Group   string // in code
	Command string // absolute; "" when URL is set
	Args    []string
	Env     []string // the complete environment
	Dir     string
	URL     string
	SSE     bool
	Headers map[string]string
}

// ClientNames are sources for LoadServers. Each stands for the servers that the user approved in
// the client of that name.
func ClientNames() []string { return []string{"claude", "codex", "vscode", "cursor"} }

// LoadServers returns the servers in a file or in a client's configuration, and a line for each
// one that is left out.
func LoadServers(source string, p install.ConfigDirs) (list []ServerConfig, left []string, err error) {
	if p.Getenv(depthVariable) != "" {
		return nil, []string{"--mcp-servers " + source + ": no servers are started, because repl started this program as a server itself"}, nil
	}
	entries, left, vars, err := readEntries(source, p)
	if err != nil {
		return nil, nil, fmt.Errorf("--mcp-servers %s: %w", source, err)
	}
	if len(entries) > maxServers {
		return nil, nil, fmt.Errorf("--mcp-servers %s: %d servers: at most %d", source, len(entries), maxServers)
	}
	taken := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		c, why := vars.parseEntry(name, entries[name])
		if why != nil {
			left = append(left, fmt.Sprintf("server %s is skipped: %v", name, why))
			continue
		}
		if c.Group = groupName(name, taken); c.Group != name {
			left = append(left, fmt.Sprintf("server %s is called %s in code", name, c.Group))
		}
		list = append(list, c)
	}
	return list, left, nil
}

// readEntries returns the server entries of a source.
func readEntries(source string, p install.ConfigDirs) (entries map[string]any, left []string, v *variableExpander, err error) {
	v = &variableExpander{dirs: p}
	if !slices.Contains(ClientNames(), source) {
		tree, err := install.ReadJSON(source)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, key := range []string{"mcpServers", "servers"} {
			if found, ok := tree[key].(map[string]any); ok {
				return found, nil, v, nil
			}
		}
		return nil, nil, nil, errors.New(`missing object "mcpServers"`)
	}
	client, _ := install.FindClient(source)
	file, tree, err := client.ReadTree(p)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: cannot read the servers approved in %s", err, client.Title)
	}
	entries = maps.Clone(client.ServersIn(tree))
	if entries == nil {
		entries = map[string]any{}
	}
	v.isLiteral = source == "codex"
	if source == "claude" {
		left = addClaudeProject(entries, client, tree, p)
	}
	if len(entries) == 0 {
		left = append(left, file+" lists no servers")
	}
	return entries, left, v, nil
}

// addClaudeProject adds the servers of the project: the user's own for this project, and the
// approved ones of its .mcp.json.
func addClaudeProject(entries map[string]any, client install.ClientConfig, tree map[string]any, p install.ConfigDirs) (left []string) {
	projects, _ := tree["projects"].(map[string]any)
	project, _ := projects[p.Project].(map[string]any)
	file, shared, err := client.ReadProjectTree(p)
	if err == nil {
		decided := readApprovals(project, p)
		for name, entry := range client.ServersIn(shared) {
			if decided.isApproved(name) {
				entries[name] = entry
			} else {
				left = append(left, fmt.Sprintf("server %s of %s is skipped: not approved in Claude Code", name, file))
			}
		}
		slices.Sort(left)
	}
	own, _ := project["mcpServers"].(map[string]any)
	maps.Copy(entries, own)
	for _, name := range stringItems(project["disabledMcpServers"]) {
		delete(entries, name)
	}
	return left
}

// approvals are a user's decisions about the servers of a project's .mcp.json.
type approvals struct {
	approvesAll       bool
	approved, refused []string
}

// isApproved reports whether a server is approved. A refusal anywhere overrides every approval.
func (a approvals) isApproved(name string) bool {
	return !slices.Contains(a.refused, name) && (a.approvesAll || slices.Contains(a.approved, name))
}

func (a *approvals) addSettings(settings map[string]any, mayApprove bool) {
	a.refused = append(a.refused, stringItems(settings["disabledMcpjsonServers"])...)
	if mayApprove {
		a.approvesAll = a.approvesAll || settings["enableAllProjectMcpServers"] == true
		a.approved = append(a.approved, stringItems(settings["enabledMcpjsonServers"])...)
	}
}

// readApprovals reads the three places where Claude Code stores approvals: its entry of the
// project, the user's settings, and the project's settings. A project cannot approve its own
// servers. So its checked-in settings can only refuse, and its local settings count only once the
// user trusts the project.
func readApprovals(project map[string]any, p install.ConfigDirs) (a approvals) {
	a.addSettings(project, true)
	trusted := project["hasTrustDialogAccepted"] == true
	for _, one := range []struct {
		dir, name  string
		mayApprove bool
	}{{p.Home, "settings.json", true}, {p.Project, "settings.local.json", trusted}, {p.Project, "settings.json", false}} {
		if settings, err := install.ReadJSON(filepath.Join(one.dir, ".claude", one.name)); err == nil { // most users have none
			a.addSettings(settings, one.mayApprove)
		}
	}
	return a
}

// variableExpander replaces variables such as ${HOME} in the settings of servers.
type variableExpander struct {
	dirs      install.ConfigDirs
	isLiteral bool // the client expands no variables
}

// parseEntry parses the settings of one server.
func (v *variableExpander) parseEntry(name string, entry any) (c ServerConfig, err error) {
	settings, ok := entry.(map[string]any)
	if !ok {
		return c, errors.New("not an object")
	}
	if settings["enabled"] == false || settings["disabled"] == true {
		return c, errors.New("disabled")
	}
	c.Name, c.Dir = name, v.dirs.Project
	if dir := v.expandText(settings["cwd"], &err); dir != "" {
		c.Dir = dir
		if !filepath.IsAbs(dir) {
			c.Dir = filepath.Join(v.dirs.Project, dir)
		}
	}
	kind, _ := settings["type"].(string)
	c.SSE = kind == "sse"
	if c.URL = v.expandText(cmp.Or(settings["url"], settings["httpUrl"]), &err); c.URL != "" {
		c.Headers = v.parseHeaders(settings, &err)
		return c, err
	}
	command := v.expandText(settings["command"], &err)
	for _, arg := range stringItems(settings["args"]) {
		c.Args = append(c.Args, v.expandText(arg, &err))
	}
	c.Env = v.serverEnvironment(settings, &err)
	if err == nil && command == "" {
		err = errors.New(`neither "command" nor "url" is set`)
	}
	if err == nil {
		c.Command, err = findCommand(command, c.Dir)
	}
	if err == nil && isOwnCommand(c) {
		err = errors.New("the command is this program itself")
	}
	return c, err
}

// parseHeaders returns the HTTP headers for a remote server.
func (v *variableExpander) parseHeaders(settings map[string]any, err *error) map[string]string {
	all := map[string]string{}
	for _, key := range []string{"headers", "http_headers"} {
		headers, _ := settings[key].(map[string]any)
		for name, value := range headers {
			all[name] = v.expandText(value, err)
		}
	}
	named, _ := settings["env_http_headers"].(map[string]any)
	for name, variable := range named {
		all[name] = v.lookupNamed(variable, err)
	}
	if variable := settings["bearer_token_env_var"]; variable != nil {
		all["Authorization"] = "Bearer " + v.lookupNamed(variable, err)
	}
	return all
}

// lookupNamed returns the value of the environment variable that a setting names.
func (v *variableExpander) lookupNamed(variable any, err *error) string {
	name, _ := variable.(string)
	value := v.dirs.Getenv(name)
	if value == "" && *err == nil {
		*err = fmt.Errorf("the variable %s is not set", name)
	}
	return value
}

// serverEnvironment returns safeVariables and the variables of the entry.
func (v *variableExpander) serverEnvironment(settings map[string]any, err *error) (env []string) {
	own, _ := settings["env"].(map[string]any)
	for _, name := range append(safeVariables(), stringItems(settings["env_vars"])...) {
		if value := v.dirs.Getenv(name); value != "" && own[name] == nil {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		env = append(env, name+"="+v.expandText(own[name], err))
	}
	return append(env, depthVariable+"=1")
}

// expandText returns a setting with its variables replaced. It sets err if a variable cannot be
// replaced.
func (v *variableExpander) expandText(setting any, err *error) string {
	if setting == nil {
		return ""
	}
	text := fmt.Sprint(setting)
	if v.isLiteral {
		return text
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			b.WriteString(text[len(before):])
			return b.String()
		}
		value, fault := v.lookupValue(name)
		if fault != nil && *err == nil {
			*err = fault
		}
		b.WriteString(value)
		text = after
	}
}

// lookupValue returns the value of ${name}.
func (v *variableExpander) lookupValue(name string) (string, error) {
	name, otherwise, hasDefault := strings.Cut(name, ":-")
	switch {
	case name == "workspaceFolder":
		return v.dirs.Project, nil
	case name == "userHome":
		return v.dirs.Home, nil
	case strings.HasPrefix(name, "input:"):
		return "", fmt.Errorf("${%s} is not supported: only an MCP client can prompt for it", name)
	}
	if value := v.dirs.Getenv(strings.TrimPrefix(name, "env:")); value != "" {
		return value, nil
	}
	if hasDefault {
		return otherwise, nil
	}
	return "", fmt.Errorf("the variable %s is not set", strings.TrimPrefix(name, "env:"))
}

// findCommand returns the absolute path of a command.
func findCommand(command, dir string) (string, error) {
	if !filepath.IsAbs(command) && strings.ContainsRune(filepath.ToSlash(command), '/') {
		command = filepath.Join(dir, command)
	}
	path, err := exec.LookPath(command)
	if err != nil {
		return "", fmt.Errorf("command not found: %s", command)
	}
	return filepath.Abs(path)
}

// isOwnCommand reports whether a server is this program's own mcp command.
func isOwnCommand(c ServerConfig) bool {
	self, err := os.Executable()
	if err != nil || !slices.Contains(c.Args, "mcp") {
		return false
	}
	a, errA := os.Stat(self)
	for _, path := range append([]string{c.Command}, c.Args...) {
		if b, errB := os.Stat(path); errA == nil && errB == nil && os.SameFile(a, b) {
			return true
		}
	}
	base := strings.TrimSuffix(filepath.Base(c.Command), ".exe")
	return (base == "repl" || base == "turnstone") && c.Args[0] == "mcp"
}

// groupName returns an unused name that is an identifier in every language.
func groupName(name string, taken map[string]bool) string {
	group := strings.Map(func(c rune) rune {
		if c == '_' || c < 0x80 && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return c
		}
		return '_'
	}, name)
	if group == "" || group[0] <= '9' {
		group = "_" + group
	}
	if slices.Contains(pythonKeywords(), group) || slices.Contains(rKeywords(), group) {
		group += "_"
	}
	const most = 60
	group = group[:min(len(group), most)]
	for free := group; ; free = fmt.Sprintf("%s_%d", group, len(taken)) {
		if !taken[free] {
			taken[free] = true
			return free
		}
		taken[free+" again"] = true // increases the next number
	}
}

// pythonKeywords are the reserved words of Python.
func pythonKeywords() []string {
	return strings.Fields("False None True and as assert async await break class continue def del elif else except finally for from global " +
		"if import in is lambda nonlocal not or pass raise return try while with yield")
}

// rKeywords are the reserved words of R that Python does not share.
func rKeywords() []string {
	return []string{"repeat", "function", "next", "TRUE", "FALSE", "NULL", "Inf", "NaN", "NA"}
}

// stringItems returns the strings in a JSON array.
func stringItems(v any) (list []string) {
	items, _ := v.([]any)
	for _, item := range items {
		if s, ok := item.(string); ok {
			list = append(list, s)
		}
	}
	return list
}
