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
	// The first look at a turn comes after firstLook; shorter turns are looked at once they
	// are over, together. Later looks come when a quarter of the memory that is left could be
	// gone, but not more often than soonest, nor than costShare times as long as a look takes.
	// While nothing grows, the pauses do, up to calmest.
	firstLook = 20 * time.Millisecond
	soonest   = 2 * time.Millisecond
	usual     = 50 * time.Millisecond
	calmest   = time.Second
	costShare = 4

	// fillRate is how many bytes a processor can fill in a second, and forkRate how many
	// processes it can start.
	fillRate = 3 << 30
	forkRate = 5000

	// spareBytes are allowed beyond a limit between turns, up to 105 % of it.
	spareBytes = 8 << 20

	// leastOver bytes beyond a small limit are still no reason to end a program. Up to
	// host.FarBeyond, one is ended only if it stays there: several processes that grew in the
	// same moment are now bounded, and give back what they meet the bound with.
	leastOver = 64 << 20

	// killGrace is how long programs may take to give memory back, the ended ones too.
	killGrace = 300 * time.Millisecond
)

// A keeper keeps the sessions of a supervisor within their limits of memory and processes. The
// kernel refuses what a process asks for beyond what the keeper has allowed it. While a turn
// runs, the keeper looks at what is used and moves that bound; it ends programs only where the
// bound did not hold. When no turn runs, it looks once more, and then no timer is set.
type keeper struct {
	all   amount // that all sessions may use together; a zero means no limit
	cpus  []int  // that all sessions may use; none means all
	armed atomic.Bool
	timer *time.Timer // calls look; Reset when armed is set

	mu    sync.Mutex
	wards []*ward // guarded by mu
}

// An amount is what sessions use or may use.
type amount struct {
	memory int64 // bytes
	tasks  int   // processes with their threads
}

// A ward is one worker with limits. Only look touches it, and the end of a turn under its lock.
type ward struct {
	w        *worker
	limits   workers.Limits
	noMemory []string               // words of an error
	enough   []string               // words of one that means something else
	used     atomic.Pointer[amount] // when it was looked at last, for the total; nil before
	stirred  atomic.Bool            // a turn has begun since then, which may be over already
	ended    atomic.Bool            // its worker has said so, perhaps before the session knows

	mu     sync.Mutex
	usage  host.Usage
	peak   int64 // of the turn
	turn   uint64
	calm   time.Duration // the pause while nothing grows
	rested bool          // it was looked at since its last turn ended
	near   bool          // memory: it was warned
	full   bool          // processes: no more can be started
	whole  bool          // that is or was because of all sessions
	over   time.Time     // memory: since when more is used than the bound allows; zero if it holds
	killed time.Time     // when a process of it was ended last
	lost   int           // processes that the kernel has ended, as far as that was told
}

func newKeeper(all amount, cpus []int) *keeper {
	k := &keeper{all: all, cpus: cpus}
	k.timer = time.AfterFunc(time.Hour, k.look)
	k.timer.Stop()
	return k
}

// keep takes a worker under its care, if it has limits; s.mu is held.
func (k *keeper) keep(w *worker) {
	l := w.s.spec.Limits
	if !w.proc.staged || k.all == (amount{}) && l.Memory == 0 && l.Processes == 0 {
		return
	}
	w.ward = &ward{w: w, limits: l, noMemory: w.s.spec.OutOfMemoryWords, enough: w.s.spec.NotOutOfMemoryWords}
	k.mu.Lock()
	k.wards = append(k.wards, w.ward)
	k.mu.Unlock()
	k.wake(w)
}

// release forgets a worker that has ended.
func (k *keeper) release(w *worker) {
	if w.ward == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, one := range k.wards {
		if one == w.ward {
			k.wards = append(k.wards[:i:i], k.wards[i+1:]...)
			return
		}
	}
}

// wake begins to look: a turn of the worker begins, or goes on. Most turns find it awake.
func (k *keeper) wake(w *worker) {
	if w.ward == nil {
		return
	}
	w.ward.ended.Store(false)
	w.ward.stirred.Store(true)
	if k.armed.CompareAndSwap(false, true) {
		k.timer.Reset(firstLook)
	}
}

// look is run by the timer.
func (k *keeper) look() {
	began := time.Now()
	k.armed.Store(false) // a turn that begins from here on sets it, whatever is seen of it
	k.mu.Lock()
	wards := k.wards[:len(k.wards):len(k.wards)]
	k.mu.Unlock()

	pause := time.Duration(0)
	var seen, busy []*ward
	for _, d := range wards {
		stirred := d.stirred.Swap(false) // first: a turn that begins from here on is seen the next time
		d.mu.Lock()
		turn, running := d.w.runs()
		running = running && !d.ended.Load()
		if running || stirred || !d.rested {
			d.measure(k, turn)
			seen = append(seen, d)
		}
		d.rested = !running
		d.mu.Unlock()
		if running {
			busy = append(busy, d)
		}
	}
	total := k.total()
	for _, d := range seen {
		d.mu.Lock()
		d.enforce(k.all, total)
		d.mu.Unlock()
	}
	for _, d := range busy {
		if p := d.pause(k.all, total); pause == 0 || p < pause {
			pause = p
		}
	}
	if len(busy) > 0 && k.armed.CompareAndSwap(false, true) {
		k.timer.Reset(max(pause, costShare*time.Since(began)))
	}
}

// total is what all sessions used when they were looked at last.
func (k *keeper) total() (sum amount) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.wards {
		if one := d.used.Load(); one != nil {
			sum.memory += one.memory
			sum.tasks += one.tasks
		}
	}
	return sum
}

// mostMemory is the limit of memory of one session; 0 means none.
func (k *keeper) mostMemory(l workers.Limits) int64 {
	if n := k.all.memory; n > 0 && (l.Memory == 0 || n < l.Memory) {
		return n
	}
	return l.Memory
}

// mostTasks is the limit of processes of one session; 0 means none.
func (k *keeper) mostTasks(l workers.Limits) int {
	if n := k.all.tasks; n > 0 && (l.Processes == 0 || n < l.Processes) {
		return n
	}
	return l.Processes
}

// runs reports whether code of the worker runs, and its turn.
func (w *worker) runs() (turn uint64, running bool) {
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

// measure looks at the tree; d.mu is held, as in all that follows.
func (d *ward) measure(k *keeper, turn uint64) {
	before := d.usage
	d.usage = d.w.proc.Usage(k.mostMemory(d.limits) / 2)
	d.used.Store(&amount{d.usage.Memory, d.usage.Tasks})
	if turn != d.turn {
		d.turn, d.peak = turn, 0
	}
	d.peak = max(d.peak, d.usage.Memory)
	if change := d.usage.Memory - before.Memory; change > 1<<20 || change < -1<<20 || k.all.tasks > 0 && d.usage.Tasks > before.Tasks {
		d.calm = 0
	}
}

// enforce bounds the tree by what is left, and says or ends what is over.
func (d *ward) enforce(all, total amount) {
	var a host.Allowance
	used, most, whole := d.usage.Memory, d.limits.Memory, false
	a.Left = most - used
	if left := all.memory - total.memory; all.memory > 0 && (most == 0 || left < a.Left) {
		used, most, whole = total.memory, all.memory, true
		a.Left = left
	}
	a.Left, a.Most = max(a.Left, 0), most
	if d.rested && used < most+most/20 {
		a.Spare = min(most/64, spareBytes)
	}
	a.Forks, a.Uncounted = d.forks(all.tasks, total.tasks)
	d.w.proc.Allow(d.usage, a)
	if n := d.usage.Killed; n > d.lost && d.limits.Memory > 0 {
		d.lost = n
		d.w.met(timeline.Limit{Kind: timeline.LimitMemory, Used: host.FarBeyond(d.limits.Memory), Max: d.limits.Memory, Step: timeline.LimitEnded, Program: "a program"})
	}
	if most == 0 {
		return
	}
	met := timeline.Limit{Kind: timeline.LimitMemory, Used: used, Max: most, AllSessions: whole, Step: timeline.LimitWarned}
	switch {
	case d.mustEnd(used, most):
		d.killed = time.Now()
		met.Step = timeline.LimitEnded
		if met.Program = d.w.proc.EndLargest(d.usage, used-most); met.Program != "" {
			d.w.met(met)
			return
		}
		met.Program = "the worker"
		d.w.met(met)
		d.w.fail(fmt.Errorf("it used more memory than its limit (%s)", met))
	case used*10 < most*8:
		d.near = false
	case used*10 >= most*9 && !d.near:
		d.near = true
		d.w.met(met)
	}
}

// mustEnd reports whether the bound does not hold a session that has a good part in the excess.
func (d *ward) mustEnd(used, most int64) bool {
	if used <= most+max(most/10, leastOver) || d.usage.Memory*4 < used {
		d.over = time.Time{}
		return false
	}
	if d.over.IsZero() {
		d.over = time.Now()
	}
	far := used > host.FarBeyond(most)
	return (far || time.Since(d.over) > killGrace) && time.Since(d.killed) > killGrace
}

// forks decides whether the tree may start processes, and ends the newest where it did so
// all the same. whole means that this is because of all sessions, whose processes no kernel
// counts together. A session that rests is not held to them: nobody would free it.
func (d *ward) forks(all, total int) (may host.Forks, whole bool) {
	used, most := d.usage.Tasks, d.limits.Processes
	if all > 0 && !d.rested && !d.ended.Load() && (most == 0 || all-total < most-used) {
		used, most, whole = total, all, true
	}
	met := timeline.Limit{Kind: timeline.LimitProcesses, Used: int64(used), Max: int64(most), AllSessions: whole, Step: timeline.LimitRefused}
	over := used - most
	switch {
	case most == 0 || over < 0:
		if !d.full {
			return host.ForksKept, false
		}
		whole = d.whole
		d.full, d.whole = false, false
		return host.ForksAllowed, whole
	case over > most/4+8 && (!whole || d.usage.Tasks*4 >= used): // a session with less is not the cause
		if whole {
			over = over*d.usage.Tasks/used + 1 // other sessions lose their part
		}
		d.w.proc.EndNewest(d.usage, over)
		met.Step = timeline.LimitEnded
		d.w.met(met)
	case !d.full:
		d.w.met(met)
	}
	d.full, d.whole = true, d.whole || whole
	return host.ForksRefused, d.whole
}

// pause is the time until the next look.
func (d *ward) pause(all, total amount) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.limits.Processes; n > 0 && d.usage.Tasks > n/2 {
		return soonest
	}
	left := int64(1) << 50
	if d.limits.Memory > 0 {
		left = d.limits.Memory - d.usage.Memory
	}
	if all.memory > 0 {
		left = min(left, all.memory-total.memory)
	}
	next := quarter(left, fillRate)
	if all.tasks > 0 {
		next = min(next, quarter(int64(all.tasks-total.tasks), forkRate))
	}
	next = max(soonest, min(next, usual))
	d.calm = min(max(d.calm*3/2, next), calmest)
	return d.calm
}

// quarter is the time in which a quarter of what is left could be gone, at so many a second and
// processor.
func quarter(left, rate int64) time.Duration {
	perSecond := int64(runtime.NumCPU()) * rate
	return time.Duration(float64(max(left, 0)) / 4 / float64(perSecond) * float64(time.Second))
}

// met writes into the session that it met a limit.
func (w *worker) met(l timeline.Limit) {
	w.s.mu.Lock()
	defer w.s.unlock()
	if w.s.worker == w {
		w.s.m.record(l)
	}
}

// rests handles the end of a turn, before its caller knows of it. A session close to a limit is
// looked at, so that the next turn has what this one gave back. A reply that tells of a lack of
// memory names the limit.
func (w *worker) rests(e *ipc.RuntimeError) {
	d := w.ward
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended.Store(true)
	lacked := e != nil && says(e, d.noMemory) && !says(e, d.enough)
	if !lacked && !d.near && !d.full {
		return
	}
	d.rested = true
	w.s.keeper.lookAt(d)
	if bound := w.s.keeper.mostMemory(d.limits); lacked && bound > 0 {
		w.met(timeline.Limit{Kind: timeline.LimitMemory, Used: d.peak, Max: bound, AllSessions: bound != d.limits.Memory, Step: timeline.LimitRefused})
	}
}

// says reports whether an error has any of these words.
func says(e *ipc.RuntimeError, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		return strings.Contains(e.Name, w) || strings.Contains(e.Message, w)
	})
}

// ready bounds a worker that has started by what it uses now. The timer alone would be too late: on
// a busy machine it comes hundreds of milliseconds after its time, and turns run by then. A block
// that was given to a process without a bound stays given. An earlier look has seen a program that
// had hardly begun, and its bound leaves less than the limit: what libraries reserve as they start,
// such as the buffers of a linear algebra, counts in it.
func (w *worker) ready() {
	d := w.ward
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w.s.keeper.lookAt(d)
}

// lookAt looks at one worker alone; d.mu is held.
func (k *keeper) lookAt(d *ward) {
	d.measure(k, d.turn)
	d.enforce(k.all, k.total())
}
