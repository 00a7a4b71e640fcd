// Package linux carries out the plan of a sandbox: it limits which files, devices, sockets and
// processes the code of a worker can reach.
//
// [Enter] works on the thread of the monitor that starts the worker. Linux applies all of it per
// thread, so the worker starts in the sandbox while the other threads of the monitor stay outside.
//
//	monitor        SetNamespaces: it is process 1 of a pid namespace, in a user
//	               namespace in which it may mount
//	               Enter, in order: dumpable, namespaces, clones, read-only, mounts,
//	               devices, processes, network, capabilities, filter
//	               Serve (package broker): connects and changes names on behalf of the worker,
//	               where mounts and a guard by name allow it
//	               Grant: adds a file or directory while the worker runs
//	               Refresh: when a turn starts, shows what programs outside have replaced
//	worker         sees the machine read-only except for its mounts, and a home directory
//	               that is built from what it may see
//
// [Restrict] does the same with Landlock, where the user accepts that. On other systems the package
// reports only that there are no sandboxes.
//
// A failed step ends the start with an error that names the step (plan.StepError). Enter never
// weakens the sandbox to make a start succeed. Package plan decides about the policy. This package
// does not know how denials reach a user.
//
// # Goroutines
//
//	name     started by  ends when
//	grant    Grant       it is applied, or has failed
//	refresh  Refresh     it is applied; Refresh waits for it
//
// Both lock a thread, whose namespaces differ from those of other threads. Package broker has the
// goroutines that answer calls.
//
// # Locks
//
// ActiveSandbox.grantMu may be held while a lock of package broker is taken. It is held while a
// grant or a refresh is applied.
package linux
