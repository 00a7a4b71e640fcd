// Package seccomp makes the system call filters under which a worker runs, and has the numbers of
// the calls that they name. A caller describes what a session may do. The filter is installed on
// the calling thread.
//
// The package starts no goroutines. It has code only for Linux.
package seccomp
