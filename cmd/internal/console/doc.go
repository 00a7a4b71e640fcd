// Package console implements the interactive front end, in which a user at a terminal types into
// one session.
//
//	status, err := console.Run(ctx, session, &console.Options{
//		Continuation: "... ",
//		HistoryPath:  filepath.Join(state, "history"),
//	})
//
// The terminal is in raw mode, also while code runs. So text typed ahead appears only when
// something reads it, and Ctrl-C interrupts the code. The worker has its own terminal, and its
// programs never use this one. While a program reads every key (timeline.FullScreenChanged), keys
// are passed on unchanged, and output is shown as it was written.
//
// The package knows no language. Prompts, completion and the check for a complete input come from
// the session. Everything else is in Options.
//
// # The user's terminal
//
// A user who starts repl expects less, vi and top to run as under python or R. So
// workers.Spec.UserTerminal gives the worker the TERM and the PAGER of the user. A program that
// wants every key clears ICANON, and the kernel reports that change (TIOCPKT with EXTPROC).
//
// Output that switches to the alternate screen was rejected as a sign: shells and prompts for one
// key never send it, and printed text may contain it. Scans for terminal readers were rejected,
// because they miss programs that poll, such as top. Letting the worker inherit the user's terminal
// was rejected. Nothing would be recorded, Ctrl-C would not interrupt a turn, and a dead program
// would leave its terminal modes behind.
//
// # Lines typed while code runs
//
// The place of a typed line is decided when Enter is pressed. If a program listens, the line is the
// program's, because the user has seen its question. If one listened since the line was started, but
// none does now, the line is kept for Ctrl-Y, see typeAhead. Otherwise it waits for the next request
// or prompt.
//
// To run such a line was rejected: an answer such as "quit()" or "y" would act on the session. To
// keep it for the next program was rejected, too: that program has asked something else.
//
// # Goroutines
//
//	name      started by      ends when                        owns
//	printer   Run             Run returns                      all output of the timeline
//	waiter    waitForTurn     the turn ends or asks           nothing: it ends the handling of lines
//	relays    Run             Run returns                      the screen while keys are relayed
//	signals   Run             Run returns                      interrupts and the window's size
//	closer    newLineEditor   Run returns                      nothing: it ends the keys with the context
//	keys      newLineEditor   its read returns after Run did   reading the terminal
//
// Run waits for all but the last. It cannot wait for keys, because a read of a terminal cannot be
// cancelled.
package console
