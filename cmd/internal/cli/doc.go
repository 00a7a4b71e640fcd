// Package cli implements the command repl: its flags, subcommands and exit statuses. It is the only
// package that knows the supported languages.
//
//	func main() {
//		supervisor.MonitorMain()
//		os.Exit(cli.Main(os.Args[1:]))
//	}
//
// The exit status is that of the code: 0, 1 after an uncaught error, or its own. It is 128 plus the
// number of a signal that ended the code, and 130 after Ctrl-C. The command itself returns 0 for
// success, 1 for failure and 2 for wrong usage. Package cmdkit has the others.
//
// # Goroutines
//
//	name        started by       ends when                        owns
//	output      runToExit        the session is closed            standard output and error
//	Ctrl-C      runToExit        the program is over              Ctrl-C
//	stdin       newStdinReader   its read of stdin returns        standard input
//	questions   startAskpass     close is called                  pages with questions of ssh
//	answers     probeMCP         the server's output ends         the output of doctor's server
//	outages     withOutages      the events of a session end      the events of a remote session
//	links       serveView        the program exits                input of repl view
//	browser     openBrowser      the program it started exits     nothing
//	daemon      startDaemon      the daemon exits                 nothing
//
// The last three and stdin are not waited for: a read of standard input cannot be stopped, and a
// browser or a daemon may outlive the program.
package cli
