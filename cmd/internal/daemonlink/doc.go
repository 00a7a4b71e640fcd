// Package daemonlink connects a command to its daemon. The daemon is on this machine, where the
// package starts one if none runs, or elsewhere, behind the command of a remote. DaemonTarget has
// the flags that choose the daemon. DaemonCommand has what all commands share that talk to a
// daemon. The package has no command of its own.
//
// A goroutine waits for a daemon that the package has started, and ends with it. Nothing waits for
// that goroutine, because the daemon may outlive the program.
package daemonlink
