// Package plan turns the policy of a sandbox into a plan for a monitor. A plan has real paths in
// the order in which they are mounted, and names that a worker must not write. It also has a home
// directory of the files that the worker may see.
//
// The package runs in the supervisor, on every system. [NewPlan] makes a [Plan] from a
// sandbox.Policy. [Plan.ForMechanism] adapts it to a mechanism that the user accepts on systems
// without namespaces. The plan is data. Package linux carries it out, and takes later [MountGrant]
// values and changes of files from it. A notice names each path that is more restricted than the
// user asked for, such as a read-only directory that cannot have an overlay.
//
// The package mounts nothing, and does not know how a plan reaches the monitor. It starts no
// goroutines, and no process except git, to ask for its settings.
package plan
