// Package kernelworker runs a Jupyter kernel as a worker. It starts the kernel, exchanges Jupyter
// messages with it, and speaks the worker protocol with the supervisor. To the supervisor it is a
// worker like any other.
//
// The kernel runs in the worker's own session and process group, with the worker's terminal as its
// standard input. So the supervisor sees which process reads the terminal, as for any worker.
//
// A turn is an execute_request. It is over when two messages have arrived: its reply, and the
// status "idle" with the request as parent. They arrive on different sockets, and so in either
// order. Otherwise only the kernel's end ends a turn, never a heartbeat or a timeout. Text belongs
// to the turn during which it arrives. The parent that it names does not matter, because a thread
// of an earlier turn may name any.
//
// # A worker around the kernel
//
// Some two hundred languages have a Jupyter kernel. The supervisor knows one protocol and no
// language. So a kernel is the child of a worker, and this worker is the same program in a hidden
// mode, repl kernel-worker.
//
// Teaching the supervisor the Jupyter protocol was rejected: it would be a second protocol with
// weaker rules in the core. A worker in Python over jupyter_client was rejected. It needs packages
// that the user of a kernel for bash may not have, and its three polling threads cost each turn
// some milliseconds.
//
// # Interrupts
//
// An interrupt waits until the kernel runs the code of its turn, because an earlier one can kill
// IRkernel and ipykernel. An ipykernel that is interrupted between two of its own steps drops the
// request without a reply. So the worker sends a kernel_info_request after each interrupt. If the
// answer to it comes first, the turn is over. Only kernels that ignore SIGINT between turns get
// this request.
//
// Python's signal handler only sets a flag, so an interrupt just before a sleep leaves the kernel
// asleep. A second SIGINT was rejected: it would end code that handles the first one. Instead the
// worker wakes the main thread on Linux, at most 10 times in 20 s, with a signal of the C library
// that has no other effect. A read, or a wait for a lock, still needs another interrupt.
//
// # Goroutines
//
//	name              started by   ends when                         owns
//	loop              Run          the worker ends                   all state; the terminal
//	frames            Run          the channel ends                  receiving frames
//	shell, iopub,     startReaders the kernel's socket is closed     receiving messages
//	stdin, control
//	reaper            launchKernel the kernel has ended              the call to Wait
//	output tail       launchKernel the kernel's output is closed     the last lines of a kernel that
//	                                                                 sends its output in messages
//
// The readers pass on what they receive, one item at a time, and wait until the loop has taken it.
//
// # Bounds
//
// Messages have the bounds of packages wire and zmtp. The last 4 KiB of a kernel's own output are
// kept for the report of its end. A kernel that is asked to exit has half of the supervisor's grace
// period, 2 s at most. The messages of a dead kernel are read for 1 s at most.
package kernelworker
