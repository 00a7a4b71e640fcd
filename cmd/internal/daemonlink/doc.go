// Package daemonlink leads a command to its daemon: on this machine, where it starts one if there is
// none, or elsewhere, through the command of a remote. DaemonTarget has the flags that choose the daemon,
// and DaemonCommand what all commands share that talk to one. The package has no command of its own.
//
// A daemon that it has started is waited for by a goroutine, which ends with the daemon and is not
// waited for itself: the daemon may outlive the program.
package daemonlink
