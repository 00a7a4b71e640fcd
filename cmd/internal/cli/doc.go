// Package cli is the command repl: its flags, its subcommands and its exit
// statuses. It is the only package that knows which languages there are.
//
//	func main() {
//		supervisor.MonitorMain()
//		os.Exit(cli.Main(os.Args[1:]))
//	}
//
// The exit status is that of the code that ran: 0, 1 after an uncaught error, its own exit
// status, 128 plus the signal that ended it, 130 after Ctrl-C. The command itself returns
// 0 for success, 1 for failure, 2 for wrong usage.
//
// # Goroutines
//
//	name      started by     ends when                    owns
//	signals   catchSignals   the command is over          the signals that end the program
//	output    runProgram     the session is closed        standard output and error
//	ctrlC     runProgram     the program is over          Ctrl-C
//	reader    newStdinReader       its read of stdin returns    standard input
//	making    preparer       the packages are made, or    the tool that makes them
//	                         nobody waits for them
//	answers   probeMCP       the server's output ends     what doctor's server writes
//
// All but reader are waited for: a read of standard input cannot be stopped.
package cli
