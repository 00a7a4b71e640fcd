// Package sessions has the commands that show and drive sessions of a daemon: repl list, attach, view,
// events, export, files, recover, grant, wait, interrupt, reset, close, clients and detach.
//
// # Goroutines
//
//	name        started by       ends when                        owns
//	outages     withOutages      the events of a session end      the events of a remote session
//	links       serveView        the program exits                input of repl view
//
// The command does not wait for the last one, because a read of standard input cannot be stopped.
package sessions
