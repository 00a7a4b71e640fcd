// Package plan turns the policy of a sandbox into three things: real paths in the order in which they
// are mounted, names that a worker must not write, and a home directory of the files that it may see.
//
// It runs in the supervisor, on every system. [NewPlan] makes a [Plan] from a sandbox.Policy;
// [Plan.ForMechanism] adapts it to a mechanism that the user accepts on systems without namespaces.
// The plan is data: package linux carries it out, and takes later [MountGrant] values and changes
// of files from it. A notice names each path that is more restricted than the user asked for, such
// as a read-only directory that cannot have an overlay.
//
// The package starts no goroutines, and no processes but git, to ask for its settings. It mounts
// nothing, and does not know how a plan reaches the monitor.
package plan
