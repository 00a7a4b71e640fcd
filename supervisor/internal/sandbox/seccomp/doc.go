// Package seccomp makes the filters of system calls that a worker runs under, and has the numbers
// of the calls that they name. It is a leaf: a caller says what a session may do, and the filter is
// installed on the thread that calls.
//
// The package starts no goroutines. It has code only for Linux.
package seccomp
