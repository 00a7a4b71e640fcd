// Package supervisor keeps REPLs alive for programs that embed it. It starts workers for R, Python
// and other languages, drives them turn by turn, and knows when they are done because they say so.
//
//	func main() {
//		supervisor.MonitorMain() // in a monitor process it never returns
//		sup, _ := supervisor.New(nil)
//		defer sup.Close()
//		s, _ := sup.Open(ctx, "main", python.Spec(python.Options{}))
//		turn, _ := s.Submit(ctx, "6 * 7")
//		reply, _ := s.Wait(ctx, turn, session.WaitAtMost(45*time.Second))
//		fmt.Println(reply.Text()) // 42
//	}
//
// A [Session] outlives its workers; each worker is one generation of it. A turn is one input and
// everything up to the worker's idle message, and has a number. The session's timeline records all
// events, and every reader has its own cursor.
//
// A turn ends only when the worker reports that it is idle, or exits. Prompts, output, silence and
// clocks never end a turn. Nothing queues behind a running turn: a second input is refused at once.
// Polls, interrupts and other sessions are served at once.
//
// The package does not know how input reaches a runtime or how a runtime is found (see package
// workers), or how a timeline is displayed (see timeline/render).
//
// # Session files
//
// A reply names files of its session, such as output.txt. With a remote daemon they are on another
// machine, so [Session.File] returns them in pieces of up to 1 MiB. It reads only regular files
// directly in the session directory, and follows no links. Otherwise code in a sandbox could leave
// a link to a secret file for a client to follow. A second transport command such as scp was
// rejected, because each engine has its own rules for paths, and srun has no such command. A copy
// kept up to date would transfer 256 MiB of output for the few lines that a user looks at.
//
// # Exit at the user's request
//
// Closing a session is bounded: exit handlers get half a second, and a handler that saves 60 steps
// once saved 6. A user at the prompt can wait instead, see what happens, and interrupt it. So
// Ctrl-D submits the input that ends the runtime, as a turn that may exit. Neither the turn nor the
// time after session_end has a bound. A first interrupt is a signal; a second one kills the worker.
// A longer bound for all was rejected, because any bound cuts off somebody's work. No bound was
// rejected as well: a daemon, a reset and a closed terminal need one.
//
// # Goroutines
//
//	name             started by              ends when                                    owns
//	readFrames       startGoroutines         the channel ends                             the channel's read side
//	readTerminal     startGoroutines         the terminal ends                            the terminal's read side
//	watchProcess     startGoroutines         the session knows that the worker ended      the end of the worker
//	(drained)        watchProcess            readFrames and readTerminal have ended       nothing
//	feedTerminal     an answer               the terminal took the input, or after 1 s    one piece of terminal input
//	(start)          Open, Reset, an input   the process exists, or the start has failed  a start and its preparation
//	(preparation)    the first waiter        Preparation.Run returns                      one preparation for all its waiters
//	runCall          a call                  the function returned and its result is sent one call of a host function
//	awaitSignals     a turn                  earlier signals are sent, or after 10 s      that turn, until then
//
// ipc.Conn, timeline.Log and launch.WorkerProcess have goroutines of their own, which their packages
// document. Two timers, one for the deadlines of the state machine and one for the scan for
// terminal readers, run only during a start or a turn. An idle session causes no wake-ups.
//
// Session.Close waits for every goroutine except runCall, whose function may ignore its context. A
// timer that fires during Close finds nothing to do.
//
// # Locks
//
// A lock of the first column may be held when one of the second is taken, never the other way round:
//
//	Session.lifecycle, a token    Session.mu
//	streamMerger.mu               Session.mu
//	limitedWorker.mu              Session.mu, limitEnforcer.mu
//	Session.mu                    limitEnforcer.mu, timeline.Log.mu, ipc.Conn.mu, locks of package launch
//
// lifecycle is held over the start or end of a worker, streamMerger.mu over deliveries, and
// limitedWorker.mu over reads of /proc. While Session.mu is held, nothing waits, but at debug frames
// are logged. An event ends with Session.unlock, which performs the effects.
package supervisor
