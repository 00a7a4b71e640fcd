// Package daemoncmd has the commands that run and control a daemon: repl serve, repl service and
// repl daemon. Package daemon implements the daemon. The package starts no goroutines.
package daemoncmd
