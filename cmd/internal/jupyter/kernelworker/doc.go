// Package worker runs a Jupyter kernel as a worker: it starts the kernel, speaks Jupyter's messages
// with it, and the worker protocol with the supervisor, which cannot tell it from another worker.
//
// The kernel runs in the worker's own session and process group, with the worker's terminal as its
// standard input. So the supervisor sees what reads the terminal itself, as for any worker.
//
// A turn is an execute_request. It is over when both its reply and the status "idle" with it as
// parent are there, which come on different sockets and so in either order. Nothing else ends it but
// the kernel's end: no heartbeat, no time. Text belongs to the turn in which it arrives, whatever parent
// it names: a thread of an earlier turn names any.
//
// # Goroutines
//
//	name              started by   ends when                         owns
//	loop              Run          the worker ends                   all state; the terminal
//	frames            Run          the channel ends                  receiving frames
//	shell, iopub,     connect      the kernel's socket is closed     receiving messages
//	stdin, control
//	reaper            launch       the kernel has ended              the call to Wait
//	keeper            launch       the kernel's output is closed     the last lines of a kernel that
//	                                                                 shows its output itself
//
// They hand over what they receive, one at a time, and wait until the loop takes it.
//
// # Bounds
//
// Of messages: those of packages wire and zsock. 4 KiB of a kernel's own output are kept for the
// report of its death. A kernel that was asked to end has 2 s, or half of the supervisor's grace. The
// messages of a dead kernel are read for 1 s at most.
package kernelworker
