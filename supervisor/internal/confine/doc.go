// Package confine is the sandbox of a worker: what its code may touch.
//
// It has two halves. [NewPlan] turns a workers.Sandbox into a [Plan]: real paths, in
// the order in which they are mounted. It runs in the supervisor, on every system, and
// starts nothing. [Enter] carries a plan out on the thread of the stage that starts the
// worker. Linux keeps everything that it does for each thread, so the worker is born
// confined, while the other threads of the stage stay outside.
//
//	supervisor     Attributes: the stage is process 1 of a pid namespace, in a user
//	               namespace in which it may mount
//	stage          Enter, in order: dumpable, namespaces, clones, read-only, places,
//	               devices, processes, network, rights, filter
//	               Serve: connects and changes names in the worker's place, where mounts and
//	               a guard by name allow it; reports and holds calls that they refuse
//	               Grant: a directory more, while the worker runs
//	               Refresh: shows, when a turn begins, what programs outside have replaced
//	worker         sees the machine read-only except for its places, and a home directory
//	               that is built from what it may see
//
// [Plan.ForMechanism] turns such a plan into one for a mechanism that the user accepts where there are no
// namespaces: Landlock ([Restrict], on the same thread).
//
// Each step that fails ends the start under its name ([StepError]). Enter weakens nothing to
// make a start succeed. A notice names each place that is narrower than the user asked for,
// such as a read-only directory that cannot have a layer.
package confine
