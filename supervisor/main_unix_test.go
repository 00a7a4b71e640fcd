//go:build unix

package supervisor_test

// terminalReaderCode is code that reads the terminal directly. That is detected on this system.
var terminalReaderCode = []string{"readtty"}
