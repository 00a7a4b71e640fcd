//go:build linux

package clients

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// An agent is a program that lets a model call tools.
type agent struct {
	name    string
	dialect dialect
	tool    func(name string) string // how the model is to call a tool of ours

	// configure writes what the agent needs to know, and returns the command of
	// one prompt without a terminal, and that of a session in one.
	configure func(t testing.TB, p place, m *model, o options) (once, session *exec.Cmd)
}

// options are what a test changes in an agent's configuration.
type options struct {
	model          string   // by this name; "" is one that no agent knows
	timeoutSeconds int      // for one tool call; 0 is the agent's default
	url            string   // of a server that runs already; "" has the agent start one
	server         []string // more arguments of the server that it starts
	instead        []string // the command line of another server in its place
}

// command is the command line of the server that the agent starts.
func (o options) command() []string {
	if o.instead != nil {
		return o.instead
	}
	return repl(o.server...)
}

const prompt = "go"

var agents = []agent{claude, codex, geminiCLI}

// parallel are these agents, and others that only try several calls in one turn.
var parallel = append([]agent{openCode, qwenCode}, agents...)

// claudeSearch is Claude Code's tool with which its model finds tools of servers.
const claudeSearch = "ToolSearch"

var claude = agent{
	name:    "claude",
	dialect: anthropic{},
	tool: func(name string) string {
		if name == claudeSearch {
			return name
		}
		return "mcp__repl__" + name
	},
	configure: func(t testing.TB, p place, m *model, o options) (once, session *exec.Cmd) {
		server := object{"type": "stdio", "command": o.command()[0], "args": o.command()[1:]}
		if o.url != "" {
			server = object{"type": "http", "url": o.url}
		}
		if o.timeoutSeconds > 0 {
			server["timeout"] = o.timeoutSeconds * 1000
		}
		servers := p.write(t, "servers.json", encoded(object{"mcpServers": object{"repl": server}}))
		p.write(t, ".claude.json", encoded(object{
			"hasCompletedOnboarding": true,
			"theme":                  "dark",
			"customApiKeyResponses":  object{"approved": []string{"stub"}},
			"projects":               object{p.project: object{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
		}))
		env := []string{
			"ANTHROPIC_BASE_URL=" + m.url, "ANTHROPIC_API_KEY=stub",
			"DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		}
		argv := []string{installed(t, "@anthropic-ai/claude-code-linux-*/claude"),
			"--mcp-config", servers, "--strict-mcp-config", "--allowedTools", "mcp__repl"}
		return p.command(append(argv, "-p", prompt), env...), p.command(argv, env...)
	},
}

var codex = agent{
	name:    "codex",
	dialect: openai{},
	tool: func(name string) string {
		if name == execTool || name == searchTool {
			return name
		}
		return "mcp__repl" + namespaceEnd + name
	},
	configure: func(t testing.TB, p place, m *model, o options) (once, session *exec.Cmd) {
		var b strings.Builder
		fmt.Fprintf(&b, "model = '%s'\n", cmp.Or(o.model, "stub"))
		fmt.Fprintf(&b, "model_provider = 'stub'\ncheck_for_update_on_startup = false\n")
		fmt.Fprintf(&b, "approval_policy = 'never'\nsandbox_mode = 'danger-full-access'\n")
		fmt.Fprintf(&b, "[analytics]\nenabled = false\n")
		fmt.Fprintf(&b, "[model_providers.stub]\nname = 'stub'\nbase_url = '%s/v1'\nwire_api = 'responses'\n", m.url)
		fmt.Fprintf(&b, "[projects.'%s']\ntrust_level = 'trusted'\n", p.project)
		fmt.Fprintf(&b, "[mcp_servers.repl]\ndefault_tools_approval_mode = 'approve'\n")
		if o.timeoutSeconds > 0 {
			fmt.Fprintf(&b, "tool_timeout_sec = %d\n", o.timeoutSeconds)
		}
		if o.url != "" {
			fmt.Fprintf(&b, "url = '%s'\n", o.url)
		} else {
			fmt.Fprintf(&b, "command = '%s'\nargs = %s\n", o.command()[0], encoded(o.command()[1:]))
			fmt.Fprintf(&b, "[mcp_servers.repl.env]\n")
			for _, v := range p.shared { // it hands on nothing else
				name, value, _ := strings.Cut(v, "=")
				fmt.Fprintf(&b, "%s = '%s'\n", name, value)
			}
		}
		p.write(t, ".codex/config.toml", b.String())
		binary := installed(t, "@openai/codex-linux-*/vendor/*/bin/codex")
		return p.command([]string{binary, "exec", "--skip-git-repo-check", prompt}), p.command([]string{binary, "--no-daemon"})
	},
}

var geminiCLI = agent{
	name:    "gemini",
	dialect: gemini{},
	tool:    func(name string) string { return "mcp_repl_" + name },
	configure: func(t testing.TB, p place, m *model, o options) (once, session *exec.Cmd) {
		server := object{"command": o.command()[0], "args": o.command()[1:], "trust": true}
		if o.url != "" {
			server = object{"httpUrl": o.url, "trust": true}
		}
		if o.timeoutSeconds > 0 {
			server["timeout"] = o.timeoutSeconds * 1000
		}
		env := object{}
		for _, v := range p.shared { // it hides what looks like a secret, and decides what does
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		server["env"] = env
		p.write(t, ".gemini/settings.json", encoded(object{
			"mcpServers": object{"repl": server},
			"security":   object{"auth": object{"selectedType": "gemini-api-key"}},
			"general":    object{"disableAutoUpdate": true, "enableAutoUpdate": false, "disableUpdateNag": true},
			"privacy":    object{"usageStatisticsEnabled": false},
			"ui":         object{"hideTips": true, "hideBanner": true},
		}))
		variables := []string{
			"GEMINI_API_KEY=stub", "GOOGLE_GEMINI_BASE_URL=" + m.url,
			"GEMINI_SANDBOX=false", "GEMINI_CLI_TRUST_WORKSPACE=true",
		}
		argv := node(t, installed(t, "@google/gemini-cli/bundle/gemini.js"), "--approval-mode", "yolo",
			"--model", "gemini-2.5-pro") // otherwise it would first ask another model which one to use
		variables = append(variables, "PATH="+filepath.Dir(argv[0])+":/usr/bin:/bin")
		return p.command(append(argv, "-p", prompt), variables...), p.command(argv, variables...)
	},
}

var openCode = agent{
	name:    "opencode",
	dialect: anthropic{},
	tool:    func(name string) string { return "repl_" + name },
	configure: func(t testing.TB, p place, m *model, _ options) (once, session *exec.Cmd) {
		p.write(t, ".config/opencode/opencode.json", encoded(object{
			"autoupdate": false,
			"share":      "disabled",
			"model":      "stub/stub",
			"provider": object{"stub": object{
				"npm":     "@ai-sdk/anthropic", // which it has
				"options": object{"baseURL": m.url, "apiKey": "stub"},
				"models":  object{"stub": object{"name": "stub", "tool_call": true, "limit": object{"context": 200_000, "output": 8_000}}},
			}},
			"mcp": object{"repl": object{"type": "local", "enabled": true, "command": repl()}},
		}))
		argv := []string{installed(t, "opencode-linux-*/bin/opencode"), "run", prompt}
		return p.command(argv, "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1"), nil
	},
}

var qwenCode = agent{
	name:    "qwen",
	dialect: bridged{gemini{}},
	tool: func(name string) string {
		if name == searchTool {
			return name
		}
		return "mcp__repl__" + name
	},
	configure: func(t testing.TB, p place, m *model, _ options) (once, session *exec.Cmd) {
		p.write(t, ".qwen/settings.json", encoded(object{
			"mcpServers": object{"repl": object{"command": repl()[0], "args": repl()[1:], "trust": true}},
			"security":   object{"auth": object{"selectedType": "gemini"}},
			"general":    object{"enableAutoUpdate": false},
			"privacy":    object{"usageStatisticsEnabled": false},
		}))
		argv := node(t, installed(t, "@qwen-code/qwen-code/cli.js"), "--approval-mode", "yolo", "--auth-type", "gemini", "--model", "stub", "-p", prompt)
		return p.command(argv, "QWEN_CODE_SUPPRESS_YOLO_WARNING=1", "GEMINI_API_KEY=stub", "GEMINI_MODEL=stub", "GOOGLE_GEMINI_BASE_URL="+m.url, "PATH="+filepath.Dir(argv[0])+":/usr/bin:/bin"), nil
	},
}

// runs gives an agent one prompt without a terminal and waits for its end.
func (a agent) runs(t testing.TB, o options, steps ...call) *model {
	t.Helper()
	return a.runsIn(t, newPlace(t), o, steps...)
}

// runsIn does so in a place that the test has made.
func (a agent) runsIn(t testing.TB, p place, o options, steps ...call) *model {
	t.Helper()
	m := newModel(t, a.dialect, a.tool, steps...)
	once, _ := a.configure(t, p, m, o)
	out, err := finish(t, once)
	if err != nil {
		t.Errorf("%s: %v\n%s", a.name, err, out)
	}
	if got := len(m.seen()); got != len(steps) {
		t.Fatalf("%s made %d calls of %d: %q\n%s", a.name, got, len(steps), texts(m.seen()), out)
	}
	return m
}
