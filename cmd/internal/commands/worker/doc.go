// Package worker has the command repl worker, for authors of workers. It checks whether a program
// follows the worker protocol, and creates a worker from a template. Package conformance has the
// checks, and package templates the templates. The package starts no goroutines.
package worker
