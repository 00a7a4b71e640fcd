package supervisor

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// The first measurement of a turn comes after firstMeasureDelay; shorter turns are measured
	// together once they are over. Later measurements come when a quarter of the remaining memory
	// could have been used. The interval is at least minMeasureInterval, and at least
	// measureCostFactor times the duration of a measurement. While nothing grows, the interval
	// grows up to maxMeasureInterval.
	firstMeasureDelay      = 20 * time.Millisecond
	minMeasureInterval     = 2 * time.Millisecond
	defaultMeasureInterval = 50 * time.Millisecond
	maxMeasureInterval     = time.Second
	measureCostFactor      = 4

	// fillBytesPerSecond is the number of bytes that one processor can fill in a second, and
	// forksPerSecond the number of processes that it can start.
	fillBytesPerSecond = 3 << 30
	forksPerSecond     = 5000

	// spareBytes is the memory allowed beyond a limit between turns, up to 105 % of the limit.
	spareBytes = 8 << 20

	// minExcessBytes is the excess over a small limit that never causes a kill. Below
	// proctree.HardMemoryLimit, a program is killed only if the excess persists. Processes that
	// grew at the same moment are bounded by then, and free what they cannot use.
	minExcessBytes = 64 << 20

	// killGrace is how long programs, including killed ones, may take to free memory.
	killGrace = 300 * time.Millisecond
)

// A limitEnforcer keeps the sessions of a supervisor within their memory and process limits. The
// kernel refuses a process more than the bound that the enforcer has set for it. While a turn runs,
// the enforcer measures usage and moves that bound. It kills programs only if the bound did not
// hold. After the last turn it measures once more and then sets no timer.
//
// The same measurements count the processes of all sessions together. With only a limit for each
// session, ten sessions that fork at once could fill the machine. Code that forks faster than it is
// measured may exceed the total for a moment. A new worker always starts, even beyond the total.
//
// RLIMIT_NPROC was rejected for the total: it also counts the user's other processes, and does not
// limit root. A control group would be exact, but few machines delegate one.
type limitEnforcer struct {
	totalLimits resourceAmount // limits of all sessions together; zero means no limit
	cpus        []int          // processors that all sessions share; empty means all
	armed       atomic.Bool
	timer       *time.Timer // calls measureAll; reset when armed becomes true

	mu             sync.Mutex
	limitedWorkers []*limitedWorker // guarded by mu
}

// A resourceAmount is an amount of memory and tasks, either used or allowed.
type resourceAmount struct {
	memory int64 // bytes
	tasks  int   // processes with their threads
}

// A limitedWorker is the enforcement state of one worker with limits. Only measureAll and the end
// of a turn change it, under mu.
type limitedWorker struct {
	w                 *worker
	limits            workers.Limits
	noMemoryWords     []string                       // words of an error that reports a lack of memory
	enoughMemoryWords []string                       // words that show that such an error means something else
	lastUsage         atomic.Pointer[resourceAmount] // at the last measurement, for the total; nil before the first
	hadTurn           atomic.Bool                    // a turn has started since then; it may be over already
	turnEnded         atomic.Bool                    // the worker has reported it, perhaps before the session knows

	mu              sync.Mutex
	usage           proctree.Usage
	peakMemory      int64 // during the turn
	turn            uint64
	currentInterval time.Duration // the interval while nothing grows
	measuredAtRest  bool          // it was measured since its last turn ended
	memoryWarned    bool          // the session was warned about memory
	forksRefused    bool          // no more processes can be started
	refusedByTotal  bool          // forks are or were refused because of the total of all sessions
	overSince       time.Time     // start of the time over the memory bound; zero while it holds
	lastKill        time.Time     // time of the last kill of one of its processes
	kernelKills     int           // processes that the kernel has killed and that were reported
}

func newLimitEnforcer(all resourceAmount, cpus []int) *limitEnforcer {
	e := &limitEnforcer{totalLimits: all, cpus: cpus}
	e.timer = time.AfterFunc(time.Hour, e.measureAll)
	e.timer.Stop()
	return e
}

// add starts enforcing the limits of a worker that has any; s.mu is held.
func (e *limitEnforcer) add(w *worker) {
	l := w.s.spec.Limits
	if !w.proc.monitored || e.totalLimits == (resourceAmount{}) && l.Memory == 0 && l.Processes == 0 {
		return
	}
	w.limitedWorker = &limitedWorker{w: w, limits: l, noMemoryWords: w.s.spec.OutOfMemoryWords, enoughMemoryWords: w.s.spec.NotOutOfMemoryWords}
	e.mu.Lock()
	e.limitedWorkers = append(e.limitedWorkers, w.limitedWorker)
	e.mu.Unlock()
	e.scheduleMeasure(w)
}

// remove stops tracking a worker that has ended.
func (e *limitEnforcer) remove(w *worker) {
	if w.limitedWorker == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, one := range e.limitedWorkers {
		if one == w.limitedWorker {
			e.limitedWorkers = append(e.limitedWorkers[:i:i], e.limitedWorkers[i+1:]...)
			return
		}
	}
}

// scheduleMeasure starts the timer because a turn of the worker starts or continues. For most turns
// it is already running.
func (e *limitEnforcer) scheduleMeasure(w *worker) {
	if w.limitedWorker == nil {
		return
	}
	w.limitedWorker.turnEnded.Store(false)
	w.limitedWorker.hadTurn.Store(true)
	if e.armed.CompareAndSwap(false, true) {
		e.timer.Reset(firstMeasureDelay)
	}
}

// measureAll measures the workers that may have changed and enforces their limits. The timer calls
// it.
func (e *limitEnforcer) measureAll() {
	start := time.Now()
	e.armed.Store(false) // a turn that starts from here on sets it again
	e.mu.Lock()
	limited := e.limitedWorkers[:len(e.limitedWorkers):len(e.limitedWorkers)]
	e.mu.Unlock()

	interval := time.Duration(0)
	var seen, busy []*limitedWorker
	for _, lw := range limited {
		hadTurn := lw.hadTurn.Swap(false) // first: the next measurement sees a turn that starts from here on
		lw.mu.Lock()
		turn, running := lw.w.runningTurn()
		running = running && !lw.turnEnded.Load()
		if running || hadTurn || !lw.measuredAtRest {
			lw.measureUsage(e, turn)
			seen = append(seen, lw)
		}
		lw.measuredAtRest = !running
		lw.mu.Unlock()
		if running {
			busy = append(busy, lw)
		}
	}
	total := e.totalUsage()
	for _, lw := range seen {
		lw.mu.Lock()
		lw.enforceLimits(e.totalLimits, total)
		lw.mu.Unlock()
	}
	for _, lw := range busy {
		if p := lw.nextInterval(e.totalLimits, total); interval == 0 || p < interval {
			interval = p
		}
	}
	if len(busy) > 0 && e.armed.CompareAndSwap(false, true) {
		e.timer.Reset(max(interval, measureCostFactor*time.Since(start)))
	}
}

// totalUsage returns the sum of the last measurements of all sessions.
func (e *limitEnforcer) totalUsage() (sum resourceAmount) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, lw := range e.limitedWorkers {
		if one := lw.lastUsage.Load(); one != nil {
			sum.memory += one.memory
			sum.tasks += one.tasks
		}
	}
	return sum
}

// memoryLimit returns the memory limit of one session; 0 means none.
func (e *limitEnforcer) memoryLimit(l workers.Limits) int64 {
	if n := e.totalLimits.memory; n > 0 && (l.Memory == 0 || n < l.Memory) {
		return n
	}
	return l.Memory
}

// taskLimit returns the process limit of one session; 0 means none.
func (e *limitEnforcer) taskLimit(l workers.Limits) int {
	if n := e.totalLimits.tasks; n > 0 && (l.Processes == 0 || n < l.Processes) {
		return n
	}
	return l.Processes
}

// runningTurn returns the worker's last turn and whether code is running.
func (w *worker) runningTurn() (turn uint64, running bool) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.s.worker != w {
		return 0, false
	}
	switch w.s.m.phase.state() {
	case session.StateStarting, session.StateRunning:
		return w.s.m.lastTurn, true
	}
	return w.s.m.lastTurn, false
}

// measureUsage measures the process tree; lw.mu is held here and in all methods below.
func (lw *limitedWorker) measureUsage(e *limitEnforcer, turn uint64) {
	before := lw.usage
	lw.usage = lw.w.proc.MeasureUsage(e.memoryLimit(lw.limits) / 2)
	lw.lastUsage.Store(&resourceAmount{lw.usage.Memory, lw.usage.Tasks})
	if turn != lw.turn {
		lw.turn, lw.peakMemory = turn, 0
	}
	lw.peakMemory = max(lw.peakMemory, lw.usage.Memory)
	if change := lw.usage.Memory - before.Memory; change > 1<<20 || change < -1<<20 || e.totalLimits.tasks > 0 && lw.usage.Tasks > before.Tasks {
		lw.currentInterval = 0
	}
}

// enforceLimits bounds the process tree by what remains, and reports or kills what exceeds the
// limits.
func (lw *limitedWorker) enforceLimits(all, total resourceAmount) {
	var update proctree.LimitUpdate
	used, limit, byTotal := lw.usage.Memory, lw.limits.Memory, false
	update.RemainingBytes = limit - used
	if left := all.memory - total.memory; all.memory > 0 && (limit == 0 || left < update.RemainingBytes) {
		used, limit, byTotal = total.memory, all.memory, true
		update.RemainingBytes = left
	}
	update.RemainingBytes, update.MaxProcessBytes = max(update.RemainingBytes, 0), limit
	if lw.measuredAtRest && used < limit+limit/20 {
		update.SpareBytes = min(limit/64, spareBytes)
	}
	update.ForkPolicy, update.ApplyInSandbox = lw.forkPolicy(all.tasks, total.tasks)
	lw.w.proc.ApplyLimits(lw.usage, update)
	if n := lw.usage.OOMKills; n > lw.kernelKills && lw.limits.Memory > 0 {
		lw.kernelKills = n
		lw.w.recordLimit(timeline.Limit{Kind: timeline.LimitMemory, Used: proctree.HardMemoryLimit(lw.limits.Memory), Max: lw.limits.Memory, Step: timeline.LimitEnded, Program: "a program"})
	}
	if limit == 0 {
		return
	}
	event := timeline.Limit{Kind: timeline.LimitMemory, Used: used, Max: limit, AllSessions: byTotal, Step: timeline.LimitWarned}
	switch {
	case lw.hasToEnd(used, limit):
		lw.lastKill = time.Now()
		event.Step = timeline.LimitEnded
		if event.Program = lw.w.proc.EndLargest(lw.usage, used-limit); event.Program != "" {
			lw.w.recordLimit(event)
			return
		}
		event.Program = "the worker"
		lw.w.recordLimit(event)
		lw.w.failWith(fmt.Errorf("it used more memory than its limit (%s)", event))
	case used*10 < limit*8:
		lw.memoryWarned = false
	case used*10 >= limit*9 && !lw.memoryWarned:
		lw.memoryWarned = true
		lw.w.recordLimit(event)
	}
}

// hasToEnd reports whether the bound failed to hold a session that causes much of the excess.
func (lw *limitedWorker) hasToEnd(used, limit int64) bool {
	if used <= limit+max(limit/10, minExcessBytes) || lw.usage.Memory*4 < used {
		lw.overSince = time.Time{}
		return false
	}
	if lw.overSince.IsZero() {
		lw.overSince = time.Now()
	}
	beyondHard := used > proctree.HardMemoryLimit(limit)
	return (beyondHard || time.Since(lw.overSince) > killGrace) && time.Since(lw.lastKill) > killGrace
}

// forkPolicy decides whether the process tree may start processes, and kills the newest ones if it
// exceeds the limit anyway. whole reports that the total of all sessions decided; no kernel
// mechanism counts their processes together. An idle session is not held to the total, because
// nothing would release it again.
func (lw *limitedWorker) forkPolicy(all, total int) (may proctree.ForkPolicy, byTotal bool) {
	used, limit := lw.usage.Tasks, lw.limits.Processes
	if all > 0 && !lw.measuredAtRest && !lw.turnEnded.Load() && (limit == 0 || all-total < limit-used) {
		used, limit, byTotal = total, all, true
	}
	event := timeline.Limit{Kind: timeline.LimitProcesses, Used: int64(used), Max: int64(limit), AllSessions: byTotal, Step: timeline.LimitRefused}
	excess := used - limit
	switch {
	case limit == 0 || excess < 0:
		if !lw.forksRefused {
			return proctree.ForksUnchanged, false
		}
		byTotal = lw.refusedByTotal
		lw.forksRefused, lw.refusedByTotal = false, false
		return proctree.ForksAllowed, byTotal
	case excess > limit/4+8 && (!byTotal || lw.usage.Tasks*4 >= used): // a session with fewer is not the cause
		if byTotal {
			excess = excess*lw.usage.Tasks/used + 1 // other sessions lose their share
		}
		lw.w.proc.EndNewest(lw.usage, excess)
		event.Step = timeline.LimitEnded
		lw.w.recordLimit(event)
	case !lw.forksRefused:
		lw.w.recordLimit(event)
	}
	lw.forksRefused, lw.refusedByTotal = true, lw.refusedByTotal || byTotal
	return proctree.ForksRefused, lw.refusedByTotal
}

// nextInterval returns the time until the next measurement.
func (lw *limitedWorker) nextInterval(all, total resourceAmount) time.Duration {
	lw.mu.Lock()
	defer lw.mu.Unlock()
	if n := lw.limits.Processes; n > 0 && lw.usage.Tasks > n/2 {
		return minMeasureInterval
	}
	left := int64(1) << 50
	if lw.limits.Memory > 0 {
		left = lw.limits.Memory - lw.usage.Memory
	}
	if all.memory > 0 {
		left = min(left, all.memory-total.memory)
	}
	next := timeToQuarter(left, fillBytesPerSecond)
	if all.tasks > 0 {
		next = min(next, timeToQuarter(int64(all.tasks-total.tasks), forksPerSecond))
	}
	next = max(minMeasureInterval, min(next, defaultMeasureInterval))
	lw.currentInterval = min(max(lw.currentInterval*3/2, next), maxMeasureInterval)
	return lw.currentInterval
}

// timeToQuarter returns the time in which a quarter of what is left could be used up. rate is per
// second and processor.
func timeToQuarter(left, rate int64) time.Duration {
	perSecond := int64(runtime.NumCPU()) * rate
	return time.Duration(float64(max(left, 0)) / 4 / float64(perSecond) * float64(time.Second))
}

// recordLimit records in the session's timeline that a limit was reached.
func (w *worker) recordLimit(l timeline.Limit) {
	w.s.mu.Lock()
	defer w.s.unlock()
	if w.s.worker == w {
		w.s.m.recordEvent(l)
	}
}

// checkLimitsAtTurnEnd handles the end of a turn before its caller learns of it. It measures a
// session that is close to a limit, so that the next turn can use what this one freed. For an error
// that reports a lack of memory it records the limit, so that the reply names it.
func (w *worker) checkLimitsAtTurnEnd(e *ipc.RuntimeError) {
	lw := w.limitedWorker
	if lw == nil {
		return
	}
	lw.mu.Lock()
	defer lw.mu.Unlock()
	lw.turnEnded.Store(true)
	outOfMemory := e != nil && errorHasWord(e, lw.noMemoryWords) && !errorHasWord(e, lw.enoughMemoryWords)
	if !outOfMemory && !lw.memoryWarned && !lw.forksRefused {
		return
	}
	lw.measuredAtRest = true
	w.s.limitEnforcer.measureWorker(lw)
	if bound := w.s.limitEnforcer.memoryLimit(lw.limits); outOfMemory && bound > 0 {
		w.recordLimit(timeline.Limit{Kind: timeline.LimitMemory, Used: lw.peakMemory, Max: bound, AllSessions: bound != lw.limits.Memory, Step: timeline.LimitRefused})
	}
}

// errorHasWord reports whether an error's name or message contains any of these words.
func errorHasWord(e *ipc.RuntimeError, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		return strings.Contains(e.Name, w) || strings.Contains(e.Message, w)
	})
}

// applyInitialLimits bounds a worker that has just become ready by its present usage. The timer
// alone would be too late: on a busy machine it fires hundreds of milliseconds late, and turns run
// by then. Memory that an unbounded process was given cannot be taken back. An earlier measurement
// saw the program just after it started. A bound from that time would be below the limit, because
// it counts the memory that libraries reserve as they load, such as buffers for linear algebra.
func (w *worker) applyInitialLimits() {
	lw := w.limitedWorker
	if lw == nil {
		return
	}
	lw.mu.Lock()
	defer lw.mu.Unlock()
	w.s.limitEnforcer.measureWorker(lw)
}

// measureWorker measures one worker alone and enforces its limits; lw.mu is held.
func (e *limitEnforcer) measureWorker(lw *limitedWorker) {
	lw.measureUsage(e, lw.turn)
	lw.enforceLimits(e.totalLimits, e.totalUsage())
}
