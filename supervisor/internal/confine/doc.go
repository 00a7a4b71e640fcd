// Package confine sandboxes a worker: it limits which files, devices, sockets and processes its
// code can reach.
//
// The package has two halves. [NewPlan] turns a workers.Sandbox into a [Plan]: real paths, in the
// order in which they are mounted. It runs in the supervisor, on every system, and starts nothing.
// [Enter] carries a plan out on the thread of the monitor that starts the worker. Linux applies all
// of it per thread, so the worker starts confined while the other threads of the monitor stay
// outside.
//
//	supervisor     Attributes: the monitor is process 1 of a pid namespace, in a user
//	               namespace in which it may mount
//	monitor        Enter, in order: dumpable, namespaces, clones, read-only, mounts,
//	               devices, processes, network, capabilities, filter
//	               Serve: connects and changes names on behalf of the worker, where mounts
//	               and a guard by name allow it; reports and holds the calls that they refuse
//	               Grant: adds a file or directory while the worker runs
//	               Refresh: when a turn starts, shows what programs outside have replaced
//	worker         sees the machine read-only except for its mounts, and a home directory
//	               that is built from what it may see
//
// [Plan.ForMechanism] adapts such a plan to a mechanism that the user accepts on systems without
// namespaces: Landlock ([Restrict], on the same thread).
//
// A failed step ends the start with the step's name ([StepError]). Enter never weakens the sandbox
// to make a start succeed. A notice names each path that is more restricted than the user asked
// for, such as a read-only directory that cannot have an overlay.
package confine
