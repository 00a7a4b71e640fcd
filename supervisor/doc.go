// Package supervisor keeps REPLs alive for programs that embed it. It starts R, Python or
// other workers, drives them turn by turn, and knows that they are done because they say so.
//
//	func main() {
//		supervisor.MonitorMain() // may never return: see its doc
//		sup, _ := supervisor.New(nil)
//		defer sup.Close()
//		s, _ := sup.Open(ctx, "main", python.Spec(python.Options{}))
//		turn, _ := s.Submit(ctx, "6 * 7")
//		reply, _ := s.Wait(ctx, turn, session.WaitAtMost(45*time.Second))
//		fmt.Println(reply.Text()) // 42
//	}
//
// A [Session] outlives its workers; each worker is one generation of it. A turn is one input
// and everything up to the worker's idle, and has a number. The session's timeline records
// all events, and every reader has a cursor of its own.
//
// A turn ends only when the worker says that it is idle, or ends. No prompt, output, silence
// or clock ever decides anything about a turn. Nothing waits behind a running turn: a second
// input is refused at once, and polls, interrupts and other sessions are answered at once.
//
// The package does not know how input reaches a runtime (see the workers), how to find a
// runtime (see workers), or how to show a timeline (see timeline.Render).
//
// # Goroutines
//
//	name      started by  ends when                              owns
//	frames    begin       the channel ends                       the channel's read side
//	terminal  begin       the terminal ends                      the terminal's read side
//	watch     begin       the session knows that the worker ended  the worker's end
//	drained   watch       frames and terminal have ended         nothing
//	feed      an answer   the terminal took it, or 1 s           one piece of terminal input
//	start     Open, Reset, an input  there is a process, or there will be none  a start and its preparation
//	make      the first who waits  Make returns                          one preparation for all who wait
//	run       a call      its function returns, and the result is sent  one call of a function of the host
//	await     a turn      the signals before it are sent, or 10 s  that turn, until then
//
// ipc.Conn, timeline.Log and the host process have one goroutine each, listed
// there. Two timers (what the machine has due; looking for terminal readers) run
// only while a start or a turn is under way: an idle session costs no wake-ups.
// Session.Close waits for every goroutine but run, whose function may ignore its context; a timer that fires meanwhile finds
// nothing to do.
package supervisor
