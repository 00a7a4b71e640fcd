// Package launch starts workers, each on a terminal of its own, and ends their whole process trees.
// It is the supervisor's client of their monitors.
//
// It knows the order in which a worker starts and ends. The parts are in packages below it: monitor
// is the monitor itself, monitorproto its messages, pty the terminal, and proctree the process
// tree. The package does not know the worker protocol, turns, sessions or languages.
//
//	func main() { launch.MonitorMain() /* first line */ ; … }
//
//	p, err := launch.Start(&launch.StartConfig{Path: "/usr/bin/python3", Env: os.Environ()})
//	go p.Terminal().AwaitOutput(drain)  // calls TryRead; an undrained terminal blocks the worker
//	p.Channel().Write(frame)
//	<-p.Exited()                  // p.Exit() says how the worker ended
//	err = p.Close()               // no process is left
//
// # Processes
//
//	supervisor ─┬─ commands ─▶ monitor ── parent of ─▶ worker ─▶ its children
//	            ├─ events ◀────┘ (leads the session)    (leads the foreground group)
//	            ├─ channel ◀────────────────────────▶ 3, 4
//	            └─ terminal ◀───────────────────────▶ 0, 1, 2
//
// The monitor is the program itself, re-executed under the name "turnstone-monitor". The file
// monitor_unix.go of package monitor lists its steps in order. It exists because only a parent can
// do four things: report how a worker ended, signal it without the risk of a reused pid, continue
// it after a stop, and collect its orphans. It also outlives a killed supervisor just long enough
// to end the tree. Without a monitor (see WorkerProcess.HasMonitor) the supervisor is the parent,
// and its guarantees are weaker.
//
// # Guarantees by system
//
//	                          Linux             macOS                  Windows
//	start without a monitor   yes               yes                    no
//	end of the whole tree     yes: subreaper    best effort: ancestry, yes: job
//	                                            session, tag
//	empty signal mask         yes               as inherited           –
//	signals                   all               all                    interrupt, kill
//	readers of the terminal   yes: /proc        not seen               not seen
//	programs in raw mode      yes               yes, untested          not seen
//	out of memory             cgroup v1, v2     not seen               not seen
//	memory of the tree        yes               unknown                yes
//	limits                    memory, tasks,    none                   job: memory,
//	                          CPUs, files, disk                        processes
//
// On Windows the terminal is a pseudo console. The private channel is two named pipes that the
// worker connects to. The monitor shares the console and interrupts through it. The monitor starts
// nothing before the supervisor has put it into a job. The processes of a job end when its last
// handle is closed. The steps are listed in order in monitor_client_windows.go, and in
// monitor_windows.go of package monitor.
//
// # Goroutines
//
//	name        started by  ends when                        owns
//	run         Start       nothing of the tree is left      the events, Exited, Done
//	wait        run         the worker is reaped             the call to Wait; only without a monitor
//	accept      Start       the worker has connected or      the pipes until then; Windows only
//	                        ended
//	settings    run         git has answered, and the        nothing; only with a sandbox
//	                        monitor has the paths
//	late grant  run         its callback has returned        nothing; only with a sandbox
//
// Close waits for the first three, and for the goroutines that packages pty and proctree start on
// Windows. If a pseudo console does not end, Close reports that in a notice instead. The goroutines
// of package pty then end later, with the console. The two goroutines for a sandbox hold nothing
// that Close releases.
//
// # Handles on Windows
//
// Only the worker's three standard handles are inherited.
//
//	handle                    opened               closed by, once
//	job                       proctree.NewJob      Job.Close: releaseHandles, in run or abandonStart
//	its completion port       proctree.NewJob      readMessages, for which Job.Close waits
//	named pipes               listenPipe           Pipe.Close: of the channel Channel.Close, else releaseHandles
//	event that ends accept    openChannel          Channel.Close, when accept has ended
//	event of a connection     Pipe.AwaitClient     Pipe.AwaitClient, when no connection is pending
//	process of the monitor    Job.AddProcess       releaseHandles
//	console, its 4 pipe ends  pty.OpenConsole      releaseConsole, which alone calls conpty's Close
//	copies of 2 of them       duplicateEnd         releaseConsole, after that; os.File waits for the last use
//	connecting process        Job.HasProcess       Job.HasProcess
//	console, events, pipes    monitor.Run          the end of the monitor
//
// # Unproven on Windows
//
// The package has run under Wine only, which lacks or simplifies these points:
//
//   - a memory limit is accepted but has no effect, jobs count no memory, and nothing reports that
//     the limit was reached
//   - no process breaks away from a job; a start that asks for it succeeds where Windows refuses it
//   - a program that is blocked in reading its console gets CTRL_C only after Enter
//   - a start does not return if CTRL_C reaches the program that is about to start
//   - the exit of a program that crashed in machine code
//   - access rights of pipes and events; clients of other machines cannot be tried
//
// # Bounds
//
// Start takes StartConfig.Timeout at most, 60 s by default. The monitor ends a tree within 1 s.
// After that, the supervisor ends it without the monitor, within another second. Close takes 7 s at
// most. WriteInput waits 1 s for a reader. Times are time.Duration. Sizes are bytes or, for
// terminals, character cells.
//
// # Locks
//
// eventReader.mu may be held while a lock of package supervisor is taken, because an event is
// handled under it. limitsMu is held while the bounds of processes are moved.
package launch
