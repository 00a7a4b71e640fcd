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

// An agentProgram is a coding agent under test, with its configuration.
type agentProgram struct {
	name     string
	dialect  apiDialect
	toolName func(name string) string // the model's name for a tool of repl mcp

	// configure writes the agent's configuration. It returns the command for one prompt without a
	// terminal, and the command for a session in a terminal.
	configure func(t testing.TB, p testHome, m *fakeModel, o agentOptions) (once, session *exec.Cmd)
}

// agentOptions are the settings of an agent that a test changes.
type agentOptions struct {
	model          string   // by this name; "" is a name that no agent knows
	timeoutSeconds int      // for one tool call; 0 is the agent's default
	url            string   // of a running server; "" lets the agent start one
	server         []string // more arguments of the server that it starts
	otherServer    []string // the command line of another server instead
}

// serverCommand is the command line of the server that the agent starts.
func (o agentOptions) serverCommand() []string {
	if o.otherServer != nil {
		return o.otherServer
	}
	return replCommand(o.server...)
}

const testPrompt = "go"

var mainAgents = []agentProgram{claudeCode, codexCLI, geminiCLI}

// parallelAgents are the main agents, and others that are tested only with several calls in one
// turn.
var parallelAgents = append([]agentProgram{openCode, qwenCode}, mainAgents...)

// claudeSearch is Claude Code's tool for finding tools of servers.
const claudeSearch = "ToolSearch"

var claudeCode = agentProgram{
	name:    "claude",
	dialect: anthropicDialect{},
	toolName: func(name string) string {
		if name == claudeSearch {
			return name
		}
		return "mcp__repl__" + name
	},
	configure: func(t testing.TB, p testHome, m *fakeModel, o agentOptions) (once, session *exec.Cmd) {
		server := jsonObject{"type": "stdio", "command": o.serverCommand()[0], "args": o.serverCommand()[1:]}
		if o.url != "" {
			server = jsonObject{"type": "http", "url": o.url}
		}
		if o.timeoutSeconds > 0 {
			server["timeout"] = o.timeoutSeconds * 1000
		}
		servers := p.writeFile(t, "servers.json", encodeJSON(jsonObject{"mcpServers": jsonObject{"repl": server}}))
		p.writeFile(t, ".claude.json", encodeJSON(jsonObject{
			"hasCompletedOnboarding": true,
			"theme":                  "dark",
			"customApiKeyResponses":  jsonObject{"approved": []string{"stub"}},
			"projects":               jsonObject{p.project: jsonObject{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
		}))
		env := []string{
			"ANTHROPIC_BASE_URL=" + m.url, "ANTHROPIC_API_KEY=stub",
			"DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		}
		argv := []string{installedFile(t, "@anthropic-ai/claude-code-linux-*/claude"),
			"--mcp-config", servers, "--strict-mcp-config", "--allowedTools", "mcp__repl"}
		return p.newCommand(append(argv, "-p", testPrompt), env...), p.newCommand(argv, env...)
	},
}

var codexCLI = agentProgram{
	name:    "codex",
	dialect: openaiDialect{},
	toolName: func(name string) string {
		if name == execTool || name == searchTool {
			return name
		}
		return "mcp__repl" + namespaceEnd + name
	},
	configure: func(t testing.TB, p testHome, m *fakeModel, o agentOptions) (once, session *exec.Cmd) {
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
			fmt.Fprintf(&b, "command = '%s'\nargs = %s\n", o.serverCommand()[0], encodeJSON(o.serverCommand()[1:]))
			fmt.Fprintf(&b, "[mcp_servers.repl.env]\n")
			for _, v := range p.sharedEnv { // it passes on nothing else
				name, value, _ := strings.Cut(v, "=")
				fmt.Fprintf(&b, "%s = '%s'\n", name, value)
			}
		}
		p.writeFile(t, ".codex/config.toml", b.String())
		binary := installedFile(t, "@openai/codex-linux-*/vendor/*/bin/codex")
		return p.newCommand([]string{binary, "exec", "--skip-git-repo-check", testPrompt}), p.newCommand([]string{binary, "--no-daemon"})
	},
}

var geminiCLI = agentProgram{
	name:     "gemini",
	dialect:  geminiDialect{},
	toolName: func(name string) string { return "mcp_repl_" + name },
	configure: func(t testing.TB, p testHome, m *fakeModel, o agentOptions) (once, session *exec.Cmd) {
		server := jsonObject{"command": o.serverCommand()[0], "args": o.serverCommand()[1:], "trust": true}
		if o.url != "" {
			server = jsonObject{"httpUrl": o.url, "trust": true}
		}
		if o.timeoutSeconds > 0 {
			server["timeout"] = o.timeoutSeconds * 1000
		}
		env := jsonObject{}
		for _, v := range p.sharedEnv { // it hides variables that look like secrets
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		server["env"] = env
		p.writeFile(t, ".gemini/settings.json", encodeJSON(jsonObject{
			"mcpServers": jsonObject{"repl": server},
			"security":   jsonObject{"auth": jsonObject{"selectedType": "gemini-api-key"}},
			"general":    jsonObject{"disableAutoUpdate": true, "enableAutoUpdate": false, "disableUpdateNag": true},
			"privacy":    jsonObject{"usageStatisticsEnabled": false},
			"ui":         jsonObject{"hideTips": true, "hideBanner": true},
		}))
		variables := []string{
			"GEMINI_API_KEY=stub", "GOOGLE_GEMINI_BASE_URL=" + m.url,
			"GEMINI_SANDBOX=false", "GEMINI_CLI_TRUST_WORKSPACE=true",
		}
		argv := nodeCommand(t, installedFile(t, "@google/gemini-cli/bundle/gemini.js"), "--approval-mode", "yolo",
			"--model", "gemini-2.5-pro") // otherwise it would first ask another model which one to use
		variables = append(variables, "PATH="+filepath.Dir(argv[0])+":/usr/bin:/bin")
		return p.newCommand(append(argv, "-p", testPrompt), variables...), p.newCommand(argv, variables...)
	},
}

var openCode = agentProgram{
	name:     "opencode",
	dialect:  anthropicDialect{},
	toolName: func(name string) string { return "repl_" + name },
	configure: func(t testing.TB, p testHome, m *fakeModel, _ agentOptions) (once, session *exec.Cmd) {
		p.writeFile(t, ".config/opencode/opencode.json", encodeJSON(jsonObject{
			"autoupdate": false,
			"share":      "disabled",
			"model":      "stub/stub",
			"provider": jsonObject{"stub": jsonObject{
				"npm":     "@ai-sdk/anthropic", // which is installed with it
				"options": jsonObject{"baseURL": m.url, "apiKey": "stub"},
				"models":  jsonObject{"stub": jsonObject{"name": "stub", "tool_call": true, "limit": jsonObject{"context": 200_000, "output": 8_000}}},
			}},
			"mcp": jsonObject{"repl": jsonObject{"type": "local", "enabled": true, "command": replCommand()}},
		}))
		argv := []string{installedFile(t, "opencode-linux-*/bin/opencode"), "run", testPrompt}
		return p.newCommand(argv, "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1"), nil
	},
}

var qwenCode = agentProgram{
	name:    "qwen",
	dialect: bridgedDialect{geminiDialect{}},
	toolName: func(name string) string {
		if name == searchTool {
			return name
		}
		return "mcp__repl__" + name
	},
	configure: func(t testing.TB, p testHome, m *fakeModel, _ agentOptions) (once, session *exec.Cmd) {
		p.writeFile(t, ".qwen/settings.json", encodeJSON(jsonObject{
			"mcpServers": jsonObject{"repl": jsonObject{"command": replCommand()[0], "args": replCommand()[1:], "trust": true}},
			"security":   jsonObject{"auth": jsonObject{"selectedType": "gemini"}},
			"general":    jsonObject{"enableAutoUpdate": false},
			"privacy":    jsonObject{"usageStatisticsEnabled": false},
		}))
		argv := nodeCommand(t, installedFile(t, "@qwen-code/qwen-code/cli.js"), "--approval-mode", "yolo", "--auth-type", "gemini", "--model", "stub", "-p", testPrompt)
		return p.newCommand(argv, "QWEN_CODE_SUPPRESS_YOLO_WARNING=1", "GEMINI_API_KEY=stub", "GEMINI_MODEL=stub", "GOOGLE_GEMINI_BASE_URL="+m.url, "PATH="+filepath.Dir(argv[0])+":/usr/bin:/bin"), nil
	},
}

// runAgent gives an agent one prompt without a terminal and waits until it exits.
func (a agentProgram) runAgent(t testing.TB, o agentOptions, steps ...toolCall) *fakeModel {
	t.Helper()
	return a.runAgentIn(t, newTestHome(t), o, steps...)
}

// runAgentIn is runAgent in a home that the test has created.
func (a agentProgram) runAgentIn(t testing.TB, p testHome, o agentOptions, steps ...toolCall) *fakeModel {
	t.Helper()
	m := newFakeModel(t, a.dialect, a.toolName, steps...)
	once, _ := a.configure(t, p, m, o)
	out, err := runToEnd(t, once)
	if err != nil {
		t.Errorf("%s: %v\n%s", a.name, err, out)
	}
	if got := len(m.seenResults()); got != len(steps) {
		t.Fatalf("%s made %d calls of %d: %q\n%s", a.name, got, len(steps), resultTexts(m.seenResults()), out)
	}
	return m
}
