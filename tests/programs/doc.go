// Package programs drives real terminal programs in sessions, over the built "repl mcp", from their
// first question to their end. The programs are prompts in Python, JavaScript, Go and Rust, shells,
// editors, pagers, monitors and debuggers. Other tests run programs that ask nothing, and must not
// be taken for a question, and programs that misbehave at their terminal.
//
// The script install installs the packages and builds the programs of testdata. Without it these
// tests are skipped.
package programs
