// Package supervisor keeps REPLs alive for the program that embeds it. It starts workers for
// Python, R and other languages, and runs one input at a time in each. A worker itself reports when
// an input is done.
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
// A [Session] outlives its workers. Each worker is one generation of it. A turn is one input and
// everything up to the worker's idle message, and has a number. The session's timeline records all
// events, and each reader has its own cursor in it.
//
// A turn ends only when the worker reports that it is idle, or exits. Prompts, output, silence and
// clocks do not end it. There is one exception: a turn that could not be sent to the worker for 10
// s ends as interrupted (see awaitSignals below). A second input during a turn is refused at once,
// and is not queued. Polls, interrupts and other sessions do not wait for a turn.
//
// Package workers describes how a runtime is started, and package timeline/render how a timeline is
// displayed. Package supervisor does neither.
//
// # Session files
//
// A reply names files of its session, such as output.txt. With a remote daemon these files are on
// another machine, so [Session.File] returns them in pieces of up to 1 MiB. It reads only regular
// files directly in the session directory, and follows no links. A link could lead to a secret
// file: code in a sandbox can create one and wait until a client reads it.
//
// A second transport command such as scp was rejected. Each engine has its own rules for paths, and
// srun has no such command. A copy on the client's machine, updated as output arrives, was
// rejected. It would transfer up to 256 MiB for the few lines that a user looks at.
//
// # Exit at the user's request
//
// Closing a session takes a bounded time, so it cuts off slow exit handlers. A user at the prompt
// can wait for them, see what happens, and interrupt them. So Ctrl-D at the prompt of repl does not
// close the session. It submits the input that ends the runtime, as a turn that may exit. Neither
// this turn nor the time after its session_end message has a limit. After session_end, the first
// interrupt is a signal, and the second one kills the worker.
//
// A longer limit for every close was rejected, because any limit cuts off some handlers. Closing
// without a limit was rejected as well: a daemon, a reset and a closed terminal need one.
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
// ipc.Conn, timeline.Log and launch.WorkerProcess have goroutines of their own, which their
// packages document. Two timers run only during a start or a turn: one for the deadlines of the
// state machine, and one for the scan for terminal readers. An idle session causes no wake-ups.
//
// Session.Close waits for every goroutine except runCall, whose function may ignore its context. A
// timer that fires during Close finds nothing to do.
//
// # Locks
//
// A lock of the first column may be held while a lock of the second is taken, never the other way
// round:
//
//	Session.lifecycle, a token    Session.mu
//	streamMerger.mu               Session.mu
//	functionRegistry.setting      Session.mu, functionRegistry.mu
//	limitedWorker.mu              Session.mu, limitEnforcer.mu
//	Session.mu                    limitEnforcer.mu, timeline.Log.mu, ipc.Conn.mu, locks of package launch
//
// lifecycle is held during the start or end of a worker, streamMerger.mu during deliveries, and
// limitedWorker.mu during reads of /proc. Code that holds Session.mu waits for nothing, except that
// it logs frames at debug level. Session.unlock ends the handling of an event: it performs the
// effects.
package supervisor
