// Package cli is the command repl: its flags, its subcommands and its exit
// statuses. It is the only package that knows which languages there are.
//
//	func main() {
//		supervisor.StageMain()
//		os.Exit(cli.Main(os.Args[1:]))
//	}
//
// The exit status is that of the code that ran: 0, 1 after an error that nobody
// caught, what it exited with, 128 and the signal that ended it, 130 after Ctrl-C.
// Of the command's own: 0 done, 1 failed, 2 used wrongly.
//
// # Goroutines
//
//	name      started by     ends when                    owns
//	signals   catchSignals   the command is over          the signals that end the program
//	output    runProgram     the session is closed        standard output and error
//	presses   runProgram     the program is over          Ctrl-C
//	reader    newStdin       its read of stdin returns    standard input
//	making    preparer       the packages are made, or    the tool that makes them
//	                         nobody waits for them
//	answers   probeMCP       the server's output ends     what doctor's server writes
//
// Each is waited for but reader: a read of standard input cannot be called back.
package cli
