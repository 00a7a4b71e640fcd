// Package run has the commands that run code: repl alone, repl exec, repl input and
// repl type.
//
// # Goroutines
//
//	name        started by       ends when                        owns
//	output      runToExit        the session is closed            standard output and error
//	Ctrl-C      runToExit        the program is over              Ctrl-C
//	stdin       newStdinReader   its read of stdin returns        standard input
//
// The command does not wait for the last one, because a read of standard input cannot be stopped.
package run
