// Package languages describes the languages of the command: Python, R, the user's custom workers,
// and Jupyter kernels. A Language holds the facts that a worker cannot report, such as how its
// runtime is found. Other packages use a Language, or a Spec that a Language has made. The package
// starts no sessions and no goroutines.
package languages
