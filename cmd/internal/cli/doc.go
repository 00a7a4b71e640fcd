// Package cli is the command line of repl: the table of its commands, their dispatch, help and
// completion, and the exit status. The commands themselves are in the packages below commands.
//
//	func main() {
//		supervisor.MonitorMain()
//		os.Exit(cli.Main(os.Args[1:]))
//	}
//
// The exit status is that of the code: 0, 1 after an uncaught error, or its own. It is 128 plus the
// number of a signal that ended the code, and 130 after Ctrl-C. The command itself returns 0 for
// success, 1 for failure and 2 for wrong usage. Package cmdkit has the others. The package starts no
// goroutines.
package cli
