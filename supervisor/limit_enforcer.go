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
	// The first look at a turn comes after firstMeasureDelay; shorter turns are looked at once they
	// are over, together. Later looks come when a quarter of the memory that is left could be
	// gone, but not more often than soonest, nor than measureCostFactor times as long as a look takes.
	// While nothing grows, the pauses do, up to calmest.
	firstMeasureDelay      = 20 * time.Millisecond
	minMeasureInterval     = 2 * time.Millisecond
	defaultMeasureInterval = 50 * time.Millisecond
	maxMeasureInterval     = time.Second
	measureCostFactor      = 4

	// fillBytesPerSecond is how many bytes a processor can fill in a second, and forksPerSecond how many
	// processes it can start.
	fillBytesPerSecond = 3 << 30
	forksPerSecond     = 5000

	// spareBytes are allowed beyond a limit between turns, up to 105 % of it.
	spareBytes = 8 << 20

	// minExcessBytes bytes beyond a small limit are still no reason to end a program. Up to
	// host.HardMemoryLimit, one is ended only if it stays there: several processes that grew in the
	// same moment are now bounded, and give back what they meet the bound with.
	minExcessBytes = 64 << 20

	// killGrace is how long programs may take to give memory back, the ended ones too.
	killGrace = 300 * time.Millisecond
)

// A limitEnforcer keeps the sessions of a supervisor within their limits of memory and processes. The
// kernel refuses what a process asks for beyond what the keeper has allowed it. While a turn
// runs, the keeper looks at what is used and moves that bound; it ends programs only where the
// bound did not hold. When no turn runs, it looks once more, and then no timer is set.
type limitEnforcer struct {
	totalLimits resourceAmount // that all sessions may use together; a zero means no limit
	cpus        []int          // that all sessions may use; none means all
	armed       atomic.Bool
	timer       *time.Timer // calls look; Reset when armed is set

	mu             sync.Mutex
	limitedWorkers []*limitedWorker // guarded by mu
}

// A resourceAmount is what sessions use or may use.
type resourceAmount struct {
	memory int64 // bytes
	tasks  int   // processes with their threads
}

// A limitedWorker is one worker with limits. Only look touches it, and the end of a turn under its lock.
type limitedWorker struct {
	w                 *worker
	limits            workers.Limits
	noMemoryWords     []string                       // words of an error
	enoughMemoryWords []string                       // words of one that means something else
	lastUsage         atomic.Pointer[resourceAmount] // when it was looked at last, for the total; nil before
	hadTurn           atomic.Bool                    // a turn has begun since then, which may be over already
	turnEnded         atomic.Bool                    // its worker has said so, perhaps before the session knows

	mu              sync.Mutex
	usage           host.Usage
	peakMemory      int64 // of the turn
	turn            uint64
	currentInterval time.Duration // the pause while nothing grows
	measuredAtRest  bool          // it was looked at since its last turn ended
	memoryWarned    bool          // memory: it was warned
	forksRefused    bool          // processes: no more can be started
	refusedByTotal  bool          // that is or was because of all sessions
	overSince       time.Time     // memory: since when more is used than the bound allows; zero if it holds
	lastKill        time.Time     // when a process of it was ended last
	kernelKills     int           // processes that the kernel has ended, as far as that was told
}

func newLimitEnforcer(all resourceAmount, cpus []int) *limitEnforcer {
	k := &limitEnforcer{totalLimits: all, cpus: cpus}
	k.timer = time.AfterFunc(time.Hour, k.measureAll)
	k.timer.Stop()
	return k
}

// add takes a worker under its care, if it has limits; s.mu is held.
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

// remove forgets a worker that has ended.
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

// scheduleMeasure begins to look: a turn of the worker begins, or goes on. Most turns find it awake.
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

// measureAll is run by the timer.
func (k *limitEnforcer) measureAll() {
	began := time.Now()
	k.armed.Store(false) // a turn that begins from here on sets it, whatever is seen of it
	k.mu.Lock()
	wards := k.limitedWorkers[:len(k.limitedWorkers):len(k.limitedWorkers)]
	k.mu.Unlock()

	pause := time.Duration(0)
	var seen, busy []*limitedWorker
	for _, d := range wards {
		stirred := d.hadTurn.Swap(false) // first: a turn that begins from here on is seen the next time
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

// totalUsage is what all sessions used when they were looked at last.
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

// memoryLimit is the limit of memory of one session; 0 means none.
func (k *limitEnforcer) memoryLimit(l workers.Limits) int64 {
	if n := k.totalLimits.memory; n > 0 && (l.Memory == 0 || n < l.Memory) {
		return n
	}
	return l.Memory
}

// taskLimit is the limit of processes of one session; 0 means none.
func (k *limitEnforcer) taskLimit(l workers.Limits) int {
	if n := k.totalLimits.tasks; n > 0 && (l.Processes == 0 || n < l.Processes) {
		return n
	}
	return l.Processes
}

// runningTurn reports whether code of the worker runs, and its turn.
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

// measureUsage looks at the tree; d.mu is held, as in all that follows.
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

// enforceLimits bounds the tree by what is left, and says or ends what is over.
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

// hasToEnd reports whether the bound does not hold a session that has a good part in the excess.
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

// forkPolicy decides whether the tree may start processes, and ends the newest where it did so
// all the same. whole means that this is because of all sessions, whose processes no kernel
// counts together. A session that rests is not held to them: nobody would free it.
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
	case over > most/4+8 && (!whole || d.usage.Tasks*4 >= used): // a session with less is not the cause
		if whole {
			over = over*d.usage.Tasks/used + 1 // other sessions lose their part
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

// nextInterval is the time until the next look.
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

// timeToQuarter is the time in which a quarter of what is left could be gone, at so many a second and
// processor.
func timeToQuarter(left, rate int64) time.Duration {
	perSecond := int64(runtime.NumCPU()) * rate
	return time.Duration(float64(max(left, 0)) / 4 / float64(perSecond) * float64(time.Second))
}

// recordLimit writes into the session that it met a limit.
func (w *worker) recordLimit(l timeline.Limit) {
	w.s.mu.Lock()
	defer w.s.unlock()
	if w.s.worker == w {
		w.s.m.recordEvent(l)
	}
}

// checkLimitsAtTurnEnd handles the end of a turn, before its caller knows of it. A session close to a limit is
// looked at, so that the next turn has what this one gave back. A reply that tells of a lack of
// memory names the limit.
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

// errorHasWord reports whether an error has any of these words.
func errorHasWord(e *ipc.RuntimeError, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		return strings.Contains(e.Name, w) || strings.Contains(e.Message, w)
	})
}

// applyInitialLimits bounds a worker that has started by what it uses now. The timer alone would be too late: on
// a busy machine it comes hundreds of milliseconds after its time, and turns run by then. A block
// that was given to a process without a bound stays given. An earlier look has seen a program that
// had hardly begun, and its bound leaves less than the limit: what libraries reserve as they start,
// such as the buffers of a linear algebra, counts in it.
func (w *worker) applyInitialLimits() {
	d := w.limitedWorker
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w.s.limitEnforcer.measureWorker(d)
}

// measureWorker looks at one worker alone; d.mu is held.
func (k *limitEnforcer) measureWorker(d *limitedWorker) {
	d.measureUsage(k, d.turn)
	d.enforceLimits(k.totalLimits, k.totalUsage())
}
