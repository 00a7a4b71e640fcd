// Package workerview is how a monitor reaches its worker from outside: files as they are seen from
// the worker's root directory, the memory and descriptors of its threads, and its namespaces.
//
// The package decides nothing. A [NameInDir] is a name in an open directory, which nobody can exchange
// between a check and the call.
//
// # Goroutines
//
// RunUnprivileged starts one, on a thread of its own, which ends with the function that it runs. Nothing
// waits for it.
package workerview
