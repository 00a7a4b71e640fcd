// Package worker has the command repl worker, for authors of workers: it checks whether a program
// follows the worker protocol, and creates a worker from a template. The checks are in package
// conformance, the templates in package templates. The package starts no goroutines.
package worker
