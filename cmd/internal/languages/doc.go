// Package languages knows the languages of the command: Python and R, the custom workers of the user, and
// Jupyter kernels. For each it has what no worker can tell, such as how its runtime is found. Other
// packages are handed a Language, or a Spec that one of them made. The package starts no session, and no
// goroutines.
package languages
