// Package remote reaches a daemon on another machine or in a container. A transport command, such as
// ssh gpu1, runs "repl bridge" there, and its standard streams are the connection:
//
//	c := client.New(&remote.CommandDialer{Prefix: []string{"ssh", "gpu1"}, StartDaemon: true}, nil)
//
// First repl bridge sends a [Greeting], which identifies the daemon. Other output of the command,
// before the greeting or between the lines of the daemon, is skipped within bounds. Errors quote
// the end of this output.
//
// # Hello and first call
//
// The first call follows the hello without waiting for its answer, which saves each command a round
// trip. This is safe, because the daemon handles calls in order, and the greeting has already
// identified it. Only a repeated call waits for the answer, because the daemon may have forgotten
// the client. The client's identity in the greeting was rejected: repl bridge sends the greeting
// before the daemon knows the client.
//
// # Silent connections
//
// A laptop that goes to sleep sends no message, and ssh may never notice. So repl bridge exits
// after --silence-timeout without input; repl sets it to 5 min. The client sends ten pings in that
// time, one every 30 s, also when idle. Keep-alive probes of the connection alone were rejected.
// They are sent only while an answer is awaited, so an idle connection looks like a dead one.
//
// # Goroutines
//
//	name       started by          ends when                               owns
//	prompt     CommandDialer.Dial  the greeting or the time limit comes    the time limit of the greeting
//	terminate  CommandConn.Close   the transport command has exited        nothing
//
// No method waits for them. The transport command has goroutines of its own, in package
// internal/transportcmd.
package remote
