// Package askpass lets the user answer the questions of ssh in a browser: for a passphrase, or about a
// host key. The program that connects is the server. ssh starts this program once more for each question,
// which sends it to the server over a socket and prints the answer. The package does not know what the
// questions mean, and keeps no answer.
//
// The server has a goroutine that accepts questions, and two for each question. They end with the
// function that Start returns, which waits for them.
package askpass
