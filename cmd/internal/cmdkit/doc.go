// Package cmdkit has the parts that all commands of repl share: streams, flags, usage errors, exit
// statuses and the response to signals. It runs no command, and does not depend on sessions or
// languages. Package cli has the table of commands.
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
// A command may print output of code, which can contain anything. A TerminalSanitizer removes
// everything that would act on the terminal or deceive its reader.
//
// A message of one command may suggest another command. The names for such messages are constants
// here, because the groups of commands do not import each other.
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
