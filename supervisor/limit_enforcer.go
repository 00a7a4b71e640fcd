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
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
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
	// host.HardMemoryLimit, a program is killed only if the excess persists: processes that grew at
	// the same moment are bounded by then, and free what they cannot use.
	minExcessBytes = 64 << 20

	// killGrace is how long programs, including killed ones, may take to free memory.
	killGrace = 300 * time.Millisecond
)

// A limitEnforcer keeps the sessions of a supervisor within their memory and process limits. The
// kernel refuses a process more than the bound that the enforcer has set for it. While a turn runs,
// the enforcer measures usage and moves that bound. It kills programs only if the bound did not
// hold. After the last turn it measures once more and then sets no timer.
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
	usage           host.Usage
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
	k := &limitEnforcer{totalLimits: all, cpus: cpus}
	k.timer = time.AfterFunc(time.Hour, k.measureAll)
	k.timer.Stop()
	return k
}

// add starts enforcing the limits of a worker that has any; s.mu is held.
func (k *limitEnforcer) add(w *worker) {
	l := w.s.spec.Limits
	if !w.proc.monitored || k.totalLimits == (resourceAmount{}) && l.Memory == 0 && l.Processes == 0 {
		return
	}
	w.limitedWorker = &limitedWorker{w: w, limits: l, noMemoryWords: w.s.spec.OutOfMemoryWords, enoughMemoryWords: w.s.spec.NotOutOfMemoryWords}
	k.mu.Lock()
	k.limitedWorkers = append(k.limitedWorkers, w.limitedWorker)
	k.mu.Unlock()
	k.scheduleMeasure(w)
}

// remove stops tracking a worker that has ended.
func (k *limitEnforcer) remove(w *worker) {
	if w.limitedWorker == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, one := range k.limitedWorkers {
		if one == w.limitedWorker {
			k.limitedWorkers = append(k.limitedWorkers[:i:i], k.limitedWorkers[i+1:]...)
			return
		}
	}
}

// scheduleMeasure starts the timer because a turn of the worker starts or continues. For most turns
// it is already running.
func (k *limitEnforcer) scheduleMeasure(w *worker) {
	if w.limitedWorker == nil {
		return
	}
	w.limitedWorker.turnEnded.Store(false)
	w.limitedWorker.hadTurn.Store(true)
	if k.armed.CompareAndSwap(false, true) {
		k.timer.Reset(firstMeasureDelay)
	}
}

// measureAll measures the workers that may have changed and enforces their limits. The timer calls
// it.
func (k *limitEnforcer) measureAll() {
	began := time.Now()
	k.armed.Store(false) // a turn that starts from here on sets it again
	k.mu.Lock()
	wards := k.limitedWorkers[:len(k.limitedWorkers):len(k.limitedWorkers)]
	k.mu.Unlock()

	pause := time.Duration(0)
	var seen, busy []*limitedWorker
	for _, d := range wards {
		stirred := d.hadTurn.Swap(false) // first: the next measurement sees a turn that starts from here on
		d.mu.Lock()
		turn, running := d.w.runningTurn()
		running = running && !d.turnEnded.Load()
		if running || stirred || !d.measuredAtRest {
			d.measureUsage(k, turn)
			seen = append(seen, d)
		}
		d.measuredAtRest = !running
		d.mu.Unlock()
		if running {
			busy = append(busy, d)
		}
	}
	total := k.totalUsage()
	for _, d := range seen {
		d.mu.Lock()
		d.enforceLimits(k.totalLimits, total)
		d.mu.Unlock()
	}
	for _, d := range busy {
		if p := d.nextInterval(k.totalLimits, total); pause == 0 || p < pause {
			pause = p
		}
	}
	if len(busy) > 0 && k.armed.CompareAndSwap(false, true) {
		k.timer.Reset(max(pause, measureCostFactor*time.Since(began)))
	}
}

// totalUsage returns the sum of the last measurements of all sessions.
func (k *limitEnforcer) totalUsage() (sum resourceAmount) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.limitedWorkers {
		if one := d.lastUsage.Load(); one != nil {
			sum.memory += one.memory
			sum.tasks += one.tasks
		}
	}
	return sum
}

// memoryLimit returns the memory limit of one session; 0 means none.
func (k *limitEnforcer) memoryLimit(l workers.Limits) int64 {
	if n := k.totalLimits.memory; n > 0 && (l.Memory == 0 || n < l.Memory) {
		return n
	}
	return l.Memory
}

// taskLimit returns the process limit of one session; 0 means none.
func (k *limitEnforcer) taskLimit(l workers.Limits) int {
	if n := k.totalLimits.tasks; n > 0 && (l.Processes == 0 || n < l.Processes) {
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
func (d *limitedWorker) measureUsage(k *limitEnforcer, turn uint64) {
	before := d.usage
	d.usage = d.w.proc.MeasureUsage(k.memoryLimit(d.limits) / 2)
	d.lastUsage.Store(&resourceAmount{d.usage.Memory, d.usage.Tasks})
	if turn != d.turn {
		d.turn, d.peakMemory = turn, 0
	}
	d.peakMemory = max(d.peakMemory, d.usage.Memory)
	if change := d.usage.Memory - before.Memory; change > 1<<20 || change < -1<<20 || k.totalLimits.tasks > 0 && d.usage.Tasks > before.Tasks {
		d.currentInterval = 0
	}
}

// enforceLimits bounds the process tree by what remains, and reports or kills what exceeds the
// limits.
func (d *limitedWorker) enforceLimits(all, total resourceAmount) {
	var a host.LimitUpdate
	used, most, whole := d.usage.Memory, d.limits.Memory, false
	a.RemainingBytes = most - used
	if left := all.memory - total.memory; all.memory > 0 && (most == 0 || left < a.RemainingBytes) {
		used, most, whole = total.memory, all.memory, true
		a.RemainingBytes = left
	}
	a.RemainingBytes, a.MaxProcessBytes = max(a.RemainingBytes, 0), most
	if d.measuredAtRest && used < most+most/20 {
		a.SpareBytes = min(most/64, spareBytes)
	}
	a.ForkPolicy, a.ApplyInSandbox = d.forkPolicy(all.tasks, total.tasks)
	d.w.proc.ApplyLimits(d.usage, a)
	if n := d.usage.OOMKills; n > d.kernelKills && d.limits.Memory > 0 {
		d.kernelKills = n
		d.w.recordLimit(timeline.Limit{Kind: timeline.LimitMemory, Used: host.HardMemoryLimit(d.limits.Memory), Max: d.limits.Memory, Step: timeline.LimitEnded, Program: "a program"})
	}
	if most == 0 {
		return
	}
	met := timeline.Limit{Kind: timeline.LimitMemory, Used: used, Max: most, AllSessions: whole, Step: timeline.LimitWarned}
	switch {
	case d.hasToEnd(used, most):
		d.lastKill = time.Now()
		met.Step = timeline.LimitEnded
		if met.Program = d.w.proc.EndLargest(d.usage, used-most); met.Program != "" {
			d.w.recordLimit(met)
			return
		}
		met.Program = "the worker"
		d.w.recordLimit(met)
		d.w.failWith(fmt.Errorf("it used more memory than its limit (%s)", met))
	case used*10 < most*8:
		d.memoryWarned = false
	case used*10 >= most*9 && !d.memoryWarned:
		d.memoryWarned = true
		d.w.recordLimit(met)
	}
}

// hasToEnd reports whether the bound failed to hold a session that causes much of the excess.
func (d *limitedWorker) hasToEnd(used, most int64) bool {
	if used <= most+max(most/10, minExcessBytes) || d.usage.Memory*4 < used {
		d.overSince = time.Time{}
		return false
	}
	if d.overSince.IsZero() {
		d.overSince = time.Now()
	}
	far := used > host.HardMemoryLimit(most)
	return (far || time.Since(d.overSince) > killGrace) && time.Since(d.lastKill) > killGrace
}

// forkPolicy decides whether the process tree may start processes, and kills the newest ones if it
// exceeds the limit anyway. whole reports that the total of all sessions decided; no kernel
// mechanism counts their processes together. An idle session is not held to the total, because
// nothing would release it again.
func (d *limitedWorker) forkPolicy(all, total int) (may host.ForkPolicy, whole bool) {
	used, most := d.usage.Tasks, d.limits.Processes
	if all > 0 && !d.measuredAtRest && !d.turnEnded.Load() && (most == 0 || all-total < most-used) {
		used, most, whole = total, all, true
	}
	met := timeline.Limit{Kind: timeline.LimitProcesses, Used: int64(used), Max: int64(most), AllSessions: whole, Step: timeline.LimitRefused}
	over := used - most
	switch {
	case most == 0 || over < 0:
		if !d.forksRefused {
			return host.ForksUnchanged, false
		}
		whole = d.refusedByTotal
		d.forksRefused, d.refusedByTotal = false, false
		return host.ForksAllowed, whole
	case over > most/4+8 && (!whole || d.usage.Tasks*4 >= used): // a session with fewer is not the cause
		if whole {
			over = over*d.usage.Tasks/used + 1 // other sessions lose their share
		}
		d.w.proc.EndNewest(d.usage, over)
		met.Step = timeline.LimitEnded
		d.w.recordLimit(met)
	case !d.forksRefused:
		d.w.recordLimit(met)
	}
	d.forksRefused, d.refusedByTotal = true, d.refusedByTotal || whole
	return host.ForksRefused, d.refusedByTotal
}

// nextInterval returns the time until the next measurement.
func (d *limitedWorker) nextInterval(all, total resourceAmount) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.limits.Processes; n > 0 && d.usage.Tasks > n/2 {
		return minMeasureInterval
	}
	left := int64(1) << 50
	if d.limits.Memory > 0 {
		left = d.limits.Memory - d.usage.Memory
	}
	if all.memory > 0 {
		left = min(left, all.memory-total.memory)
	}
	next := timeToQuarter(left, fillBytesPerSecond)
	if all.tasks > 0 {
		next = min(next, timeToQuarter(int64(all.tasks-total.tasks), forksPerSecond))
	}
	next = max(minMeasureInterval, min(next, defaultMeasureInterval))
	d.currentInterval = min(max(d.currentInterval*3/2, next), maxMeasureInterval)
	return d.currentInterval
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
	d := w.limitedWorker
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turnEnded.Store(true)
	lacked := e != nil && errorHasWord(e, d.noMemoryWords) && !errorHasWord(e, d.enoughMemoryWords)
	if !lacked && !d.memoryWarned && !d.forksRefused {
		return
	}
	d.measuredAtRest = true
	w.s.limitEnforcer.measureWorker(d)
	if bound := w.s.limitEnforcer.memoryLimit(d.limits); lacked && bound > 0 {
		w.recordLimit(timeline.Limit{Kind: timeline.LimitMemory, Used: d.peakMemory, Max: bound, AllSessions: bound != d.limits.Memory, Step: timeline.LimitRefused})
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
// it counts what libraries reserve as they load, such as the buffers of a linear algebra library.
func (w *worker) applyInitialLimits() {
	d := w.limitedWorker
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w.s.limitEnforcer.measureWorker(d)
}

// measureWorker measures one worker alone and enforces its limits; lw.mu is held.
func (k *limitEnforcer) measureWorker(d *limitedWorker) {
	d.measureUsage(k, d.turn)
	d.enforceLimits(k.totalLimits, k.totalUsage())
}
