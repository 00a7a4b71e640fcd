// Package daemoncmd has the commands that run and control a daemon: repl serve, repl service and
// repl daemon.
package daemoncmd
