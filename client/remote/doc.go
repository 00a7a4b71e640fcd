// Package remote reaches a daemon on another machine or in a container. A transport command, such as
// ssh gpu1, runs "repl bridge" there, and its standard streams are the connection:
//
//	c := client.New(&remote.CommandDialer{Prefix: []string{"ssh", "gpu1"}, StartDaemon: true}, nil)
//
// First repl bridge sends a [Greeting], which says what daemon it has reached. Other output of the
// command, before the greeting or between the lines of the daemon, is skipped within bounds. Errors
// quote its end.
//
// # Goroutines
//
//	name       started by          ends when                               owns
//	prompt     CommandDialer.Dial  the greeting or the time limit comes    the time limit of the greeting
//	terminate  CommandConn.Close   the transport command has exited        nothing
//
// No method waits for them. Those of the command itself are in package internal/transportcmd.
package remote
