// Package askpass lets the user answer the questions of ssh in a browser, such as for a passphrase
// or about a host key. The program that connects is the server. For each question, ssh starts this
// program once more. That process sends the question to the server over a socket, and prints the
// answer. The package does not know what the questions mean, and keeps no answer.
//
// The server has a goroutine that accepts questions, and two for each question. They end with the
// function that Start returns, which waits for them.
//
// # Questions of ssh on a page
//
// ssh asks for passwords, and whether a host key is right. An MCP server has no terminal for such
// questions, and the model must see no answer and confirm no key. So ssh runs without a terminal,
// and its SSH_ASKPASS is this program. The server shows each question on a page in the user's
// browser.
//
// BatchMode with an error was rejected: users with a password could never connect. The user's own
// SSH_ASKPASS was rejected. Usually none is installed, and one that answers anything but yes or no
// makes ssh ask without end, 10,000 times in 20 s. Elicitation was rejected, because it exists only
// within a call, and few clients hide a secret.
package askpass
