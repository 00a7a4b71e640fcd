// Package cmdkit contains the parts of every command of repl: its streams, its flags, its errors of
// usage, its exit status and its response to signals. It runs no command, and knows no session and
// no language. Package cli has the table of commands.
//
//	func newGreetCommand(f *flag.FlagSet) cmdkit.Action {
//		name := f.String("name", "world", "`NAME` whom to greet")
//		return func(s cmdkit.Streams, args []string) (int, error) {
//			if err := cmdkit.ParseFlags(f, args); err != nil {
//				return cmdkit.StatusUsage, err
//			}
//			_, err := fmt.Fprintln(s.Out, "hello", *name)
//			return cmdkit.StatusDone, err
//		}
//	}
//
// A command may print output of code, which can be anything. A TerminalSanitizer removes everything
// that would control the terminal or deceive its reader.
//
// A message of one command may advise the user to run another. The names for such advice are
// constants here, because the groups of commands do not import each other.
//
// # Goroutines
//
//	name      started by      ends when                      owns
//	signals   CatchSignals    the command is over            signals that end the program
//	progress  NewProgressBar  Close is called                the progress bar
//	reader    OnReaderGone    the reader of a pipe is gone   the poll of that pipe
//
// The command waits for signals and progress. It does not wait for reader, because a poll cannot be
// stopped.
package cmdkit
