// Package workerview gives a monitor access to its worker from outside. It reaches files as they
// are seen from the worker's root directory, the memory and descriptors of its threads, and its
// namespaces.
//
// The package decides nothing. A [NameInDir] is a name in an open directory. No program can
// exchange that directory between a check and the call.
//
// # Goroutines
//
// RunUnprivileged starts one, on a thread of its own, which ends with the function that it runs. Nothing
// waits for it.
package workerview
