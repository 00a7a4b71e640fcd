// Package terminal is the interactive front end: a person at a terminal, typing
// into one session.
//
//	status, err := terminal.Run(ctx, session, &terminal.Options{
//		Continuation: "... ",
//		HistoryPath:  filepath.Join(state, "history"),
//	})
//
// The terminal is in raw mode, also while code runs. Text that is typed then appears when
// something reads it, and Ctrl-C interrupts the code. The worker has a terminal of its
// own; its programs never touch this one. While one of them takes each key (timeline.FullScreenChanged), keys
// are passed on as they are, and output is shown as it was written.
//
// The package knows no language. Prompts, completion and the check for a complete input
// come from the session; everything else is in Options.
//
// # Goroutines
//
//	name      started by   ends when                        owns
//	printer   Run          Run returns                      everything that is shown of the timeline
//	signals   Run          Run returns                      interrupts, and the window's size
//	closer    newLineEditor    Run returns                      nothing: it ends the keys with the context
//	keyboard  newLineEditor    its read returns after Run did   reading the terminal
//
// Run waits for the first three. The read of a terminal cannot be stopped.
package console
