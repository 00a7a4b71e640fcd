// Package cli implements the command line of repl: the table of its commands, their dispatch, help
// and completion, and the exit status. The commands themselves are in the packages below commands.
//
//	func main() {
//		supervisor.MonitorMain()
//		os.Exit(cli.Main(os.Args[1:]))
//	}
//
// The exit status is that of the code: 0, 1 after an uncaught error, or its own. It is 128 plus the
// number of a signal that ended the code, and 130 after Ctrl-C. If no code ran, it is 0 for
// success, 1 for failure and 2 for wrong usage. Package cmdkit has the other values. The package
// starts no goroutines.
//
// # One table for help and completion
//
// Each command defines its flags and their descriptions in one function. From these functions come
// repl help, the manual page, the site's page of commands and completion in shells. The scripts for
// shells only call repl completion words. Asking a daemon for names of sessions takes 1 s at most.
//
// Pages written by hand were rejected, because they went wrong: one said an hour where the code had
// a day. Cobra was rejected for its many modules, its own error texts, and scripts of more than a
// thousand lines. Completion scripts with the words in them were rejected: each shell needs its own
// copy, and names of sessions need the program anyway.
package cli
