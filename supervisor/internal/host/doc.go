// Package host has the processes and terminals of each platform: it starts a
// worker on a terminal of its own, through the stage, and ends its whole tree.
//
// It knows processes, terminals and pipes. It does not know the worker
// protocol, turns, sessions or languages.
//
//	func main() { host.MonitorMain() /* first line */ ; … }
//
//	p, err := host.Start(&host.Command{Path: "/usr/bin/python3", Env: os.Environ()})
//	go p.Terminal().Await(drain)  // calls TryRead; a terminal that nobody drains blocks the worker
//	p.Channel().Write(frame)
//	<-p.Exited()                  // p.Exit() says how
//	err = p.Close()               // nothing is left
//
// # Processes
//
//	supervisor ─┬─ orders ─▶ stage ── parent of ─▶ worker ─▶ its children
//	            ├─ reports ◀─┘ (leads the session)   (leads the foreground group)
//	            ├─ channel ◀────────────────────────▶ 3, 4
//	            └─ terminal ◀───────────────────────▶ 0, 1, 2
//
// The stage is the program itself, started again under the name
// "turnstone-stage"; stage_unix.go has its steps in order. It exists because
// only a parent can say how a worker ended, signal it without mistaking its
// pid, continue it after a stop and collect its orphans. It also outlives a
// killed supervisor just long enough to end everything. Without a stage (see
// Process.HasMonitor) the supervisor is the parent and promises less.
//
// # What a system can promise
//
//	                          Linux            macOS                  Windows
//	start without a stage     yes              yes                    no
//	end of the whole tree     yes: subreaper   best effort: ancestry, yes: job
//	                                           session, tag
//	empty signal mask         yes              as inherited           –
//	signals                   all              all                    interrupt, kill
//	readers of the terminal   yes: /proc       not seen               not seen
//	programs that take keys   yes              yes, never tried       not seen
//	out of memory             cgroup v1, v2    not seen               not seen
//	memory of the tree        yes              unknown                yes
//	limits                    memory, tasks,   none                   job: memory,
//	                          CPUs, files                             processes
//
// On Windows the terminal is a pseudo console, and the private channel is two named
// pipes, to which the worker connects. The stage shares the console and interrupts
// through it. It starts nothing before the supervisor has put it into a job, whose
// processes end with its last handle. staged_windows.go and stage_windows.go have the
// steps in order.
//
// # Goroutines
//
//	name    started by   ends when                          owns
//	run     Start        nothing of the tree is left        the reports, Exited, Gone
//	wait    run          the worker is reaped               the call to Wait; without a stage only
//	accept  Start        the worker has connected, or ended the pipes until then; Windows only
//	pump    Start        the pseudo console has ended       reading it; Windows only
//	listen  Start        the job is closed                  its completion port; Windows only
//	free    run          the pseudo console has ended       its end; Windows only
//
// Close waits for all of them. If a pseudo console does not end, Close gives a notice
// instead, and pump and free end later, with the console. The stage has two: one
// serves, one reads orders until the supervisor is gone, and obeys those for a sandbox.
//
// # Handles on Windows
//
// Only the worker's three standard handles are inherited.
//
//	handle                    opened          closed by, once
//	job                       newJob          job.close: release, in run or abandon
//	its completion port       newJob          listen, which waits for it
//	four named pipes          listen          pipe.close: of the channel Channel.Close, else release
//	event that ends accept    openChannel     Channel.Close, when accept has ended
//	event of a connection     pipe.accept     pipe.accept, when nothing is under way
//	process of the stage      job.addProcess        release
//	console, its 4 pipe ends  conpty.Start    free, which alone calls conpty's Close
//	copies of 2 of them       duplicateEnd          free, behind that; os.File waits for the last use
//	process that connects     job.hasProcess         job.hasProcess
//	console, event, pipes     runMonitor        the end of the stage
//
// # Bounds
//
// Start takes Command.Timeout, 60 s by default. The stage ends a tree within 1 s; after
// that the supervisor does it without the stage, within another second. Close takes 7 s
// at most; Feed waits 1 s for a reader.
// Times are time.Duration, sizes are bytes or, of terminals, character cells.
package host
