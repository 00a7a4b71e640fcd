// Package clients tries "repl mcp" with the clients that people use: Claude Code,
// Codex and the Gemini CLI as they come from the npm registry, OpenCode and Qwen Code
// for some questions, the two TypeScript SDKs, the Inspector and the official
// conformance suite.
//
//	tests/clients/run            # installs them first, 1.5 GB outside of the tree
//	tests/clients/run -run Esc -v
//
// No model is asked: each agent is pointed at a stub on the loopback, which makes
// the tool calls that a test tells it, and keeps what the agent sends back. What
// the tests look at is therefore what a model sees. What was found this way is in
// docs/clients.md.
//
// Under plain "go test ./..." there is nothing to do: the clients are not there.
package clients
