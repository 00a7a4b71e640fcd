// Package clients tries "repl mcp" with the clients that people use: Claude Code,
// Codex and the Gemini CLI as they come from the npm registry, OpenCode and Qwen Code
// for some questions, the two TypeScript SDKs, the Inspector and the official
// conformance suite. It also tries "repl mcp --servers" with the reference servers.
//
//	tests/clients/run            # installs them first, 1.6 GB outside of the tree
//	tests/clients/run -run Esc -v
//
// No model is asked: each agent is pointed at a stub on the loopback, which makes
// the tool calls that a test orders, and keeps what the agent sends back. So the
// tests look at exactly what a model would see. docs/clients.md has the findings.
//
// A plain "go test ./..." skips these tests, because the clients are missing.
package clients
