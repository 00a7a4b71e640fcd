// Package daemoncmd has the commands that run and control a daemon: repl serve, repl service and
// repl daemon. Everything that happens while a daemon serves is in package daemon. The package starts no
// goroutines.
package daemoncmd
