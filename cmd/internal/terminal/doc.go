// Package terminal is the interactive front end: a person at a terminal, typing
// into one session.
//
//	status, err := terminal.Run(ctx, session, &terminal.Options{
//		Continuation: "... ",
//		HistoryPath:  filepath.Join(state, "history"),
//	})
//
// The terminal is in raw mode, also while code runs: what is typed then appears
// when somebody wants it, and Ctrl-C interrupts the code. The worker has a
// terminal of its own: its programs never touch this one.
//
// What it leaves out: languages. Prompts, completion and whether an input is
// whole come from the session; what does not is in Options.
//
// # Goroutines
//
//	name      started by   ends when                        owns
//	printer   Run          Run returns                      everything that is shown of the timeline
//	signals   Run          Run returns                      interrupts, and the window's size
//	closer    newEditor    Run returns                      nothing: it unblocks the line editor
//	readline  newEditor    the keyboard ends                nothing: it reads keys for the editor
//	keyboard  newEditor    its read returns after Run did   reading the terminal
//
// Run waits for the first three. The library's own ends by itself then; a read of
// a terminal cannot be called back.
package terminal
