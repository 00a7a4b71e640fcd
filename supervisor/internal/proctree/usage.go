// Package proctree treats a worker and all processes that it started as one tree. It finds who
// belongs to the tree and what it uses, limits its use, and ends it.
//
// On Linux a tree consists of the descendants of its monitor, plus a control group if a limit needs
// one. On Windows it is a job. On macOS it is found by ancestry, session and a tag in the
// environment.
//
// The supervisor and the monitor both use the package. It starts no worker, knows no terminal, and
// does not decide when a tree uses too much. Only on Windows it starts a goroutine: each Job reads
// its messages until Job.Close.
package proctree

// A Usage records what a worker and everything it started use at one moment.
type Usage struct {
	Memory    int64 // bytes not backed by a file: heap, stacks, shared memory, swapped out
	Tasks     int   // processes with their threads
	OOMKills  int   // processes that the kernel has killed for lack of memory, if it counts them
	Processes []ProcessUsage
}

// A ProcessUsage records what one process of a tree uses.
type ProcessUsage struct {
	PID, Tasks   int
	Name         string
	Data, Memory int64 // bytes: its private writable memory, and what it uses
	mapped       int64 // bytes of memory that are in files in memory
}

// A LimitUpdate says what the processes of a tree may use from now on.
type LimitUpdate struct {
	RemainingBytes  int64 // bytes that it may still use
	MaxProcessBytes int64 // bytes that one process may ask for, used or not; 0: memory is not bounded

	// SpareBytes are allowed to each process even if nothing is left, so that a runtime can report
	// that and run code that frees something.
	SpareBytes int64

	// ForkPolicy applies without a sandbox, because the kernel counts a sandbox's processes. With
	// ApplyInSandbox it applies in a sandbox, too.
	ForkPolicy
	ApplyInSandbox bool
}

// ForkPolicy says whether a tree may start processes and threads.
type ForkPolicy int

const (
	ForksUnchanged ForkPolicy = iota // keep the current state
	ForksAllowed                     // as at the start
	ForksRefused                     // until they are allowed again
)
