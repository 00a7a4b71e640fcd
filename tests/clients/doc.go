// Package clients tests "repl mcp" with the clients that people use. These are Claude Code, Codex
// and the Gemini CLI from the npm registry, and for some questions OpenCode and Qwen Code. They
// also include the two TypeScript SDKs, the Inspector and the official conformance suite. It also
// tests "repl mcp --mcp-servers" with the reference servers.
//
//	tests/clients/run            # installs them first, 1.6 GB outside the tree
//	tests/clients/run -run Esc -v
//
// No real model is used. Each agent is pointed at a stub on the loopback interface. The stub makes
// the tool calls that a test orders, and records what the agent sends back, which is what a model
// would see. docs/agents.md has the findings.
//
// A plain "go test ./..." skips these tests, because the clients are missing.
package clients
