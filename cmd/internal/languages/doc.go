// Package languages defines the languages of the command: Python and R, the custom workers of the
// user, and Jupyter kernels. For each it has the facts that no worker can report, such as how its
// runtime is found. Other packages get a Language, or a Spec that a Language made. The package
// starts no session, and no goroutines.
package languages
