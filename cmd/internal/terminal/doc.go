// Package terminal is the interactive front end: a person at a terminal, typing
// into one session.
//
//	status, err := terminal.Run(ctx, session, &terminal.Options{
//		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
//		Continuation: "... ",
//	})
//
// The terminal is in raw mode only while a line is edited. While code runs it is
// in its normal mode, so that Ctrl-C is a signal and what is typed ahead stays in
// the kernel until somebody asks for it. The worker has a terminal of its own:
// its programs never touch this one.
//
// What it leaves out: languages. Prompts, completion and whether an input is
// whole come from the session; what does not is in Options.
//
// # Goroutines
//
//	name      started by   ends when                        owns
//	printer   Run          Run returns                      everything that is shown of the timeline
//	signals   Run          Run returns                      Ctrl-C while code runs, and the window's size
//	closer    newEditor    Run returns                      nothing: it unblocks the line editor
//	keyboard  newKeyboard  its read returns after Run did   reading the terminal
//
// Run waits for all but the last: a read of a terminal cannot be called back. It
// reads only while a line is edited, so at most one is left behind, and only by
// a Run whose context was cancelled.
package terminal
