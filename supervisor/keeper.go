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

	// fillRate is how many bytes a processor can fill in a second.
	fillRate = 3 << 30

	// spareBytes are allowed beyond a limit between turns, up to 105 % of it.
	spareBytes = 8 << 20

	// leastOver bytes beyond a small limit are still no reason to end a program. Up to farOver
	// and a quarter, one is ended only if it stays there: several processes that grew in the
	// same moment are now bounded, and give back what they meet the bound with.
	leastOver = 64 << 20
	farOver   = 128 << 20

	// killGrace is how long programs may take to give memory back, the ended ones too.
	killGrace = 300 * time.Millisecond
)

// A keeper keeps the sessions of a supervisor within their limits of memory and processes. The
// kernel refuses what a process asks for beyond what the keeper has allowed it. While a turn
// runs, the keeper looks at what is used and moves that bound; it ends programs only where the
// bound did not hold. When no turn runs, it looks once more, and then no timer is set.
type keeper struct {
	all   int64 // bytes that all sessions may use together; 0 means no limit
	armed atomic.Bool
	timer *time.Timer  // calls look; Reset when armed is set
	total atomic.Int64 // bytes that all sessions used when they were looked at last

	mu    sync.Mutex
	wards []*ward // guarded by mu
}

// A ward is one worker with limits. Only look touches it, and the end of a turn under its lock.
type ward struct {
	w        *worker
	limits   workers.Limits
	noMemory []string // words of an error

	mu     sync.Mutex
	usage  host.Usage
	peak   int64 // of the turn
	turn   uint64
	calm   time.Duration // the pause while nothing grows
	rested bool          // it was looked at since its last turn ended
	near   bool          // memory: it was warned
	full   bool          // processes: no more can be started
	over   time.Time     // memory: since when more is used than the bound allows; zero if it holds
	killed time.Time     // when a process of it was ended last
}

func newKeeper(all int64) *keeper {
	k := &keeper{all: all}
	k.timer = time.AfterFunc(time.Hour, k.look)
	k.timer.Stop()
	return k
}

// keep takes a worker under its care, if it has limits; s.mu is held.
func (k *keeper) keep(w *worker) {
	l := w.s.spec.Limits
	if !w.proc.staged || k.all == 0 && l.Memory == 0 && l.Processes == 0 {
		return
	}
	w.ward = &ward{w: w, limits: l, noMemory: w.s.spec.NoMemory}
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
	if w.ward != nil && k.armed.CompareAndSwap(false, true) {
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

	total, pause := int64(0), time.Duration(0)
	var seen, busy []*ward
	for _, d := range wards {
		turn, running := d.w.runs()
		d.mu.Lock()
		if running || !d.rested {
			d.measure(k.bound(d), turn)
			seen = append(seen, d)
		}
		d.rested = !running
		total += d.usage.Memory
		d.mu.Unlock()
		if running {
			busy = append(busy, d)
		}
	}
	k.total.Store(total)
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

// bound is the limit of memory of one session; 0 means none.
func (k *keeper) bound(d *ward) int64 {
	if k.all > 0 && (d.limits.Memory == 0 || k.all < d.limits.Memory) {
		return k.all
	}
	return d.limits.Memory
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
func (d *ward) measure(bound int64, turn uint64) {
	before := d.usage.Memory
	d.usage = d.w.proc.Usage(bound / 2)
	if turn != d.turn {
		d.turn, d.peak = turn, 0
	}
	d.peak = max(d.peak, d.usage.Memory)
	if change := d.usage.Memory - before; change > 1<<20 || change < -1<<20 {
		d.calm = 0
	}
}

// enforce bounds the tree by what is left, and says or ends what is over.
func (d *ward) enforce(all, total int64) {
	var a host.Allowance
	used, most, whole := d.usage.Memory, d.limits.Memory, false
	a.Left = most - used
	if all > 0 && (most == 0 || all-total < a.Left) {
		used, most, whole = total, all, true
		a.Left = all - total
	}
	a.Left, a.Most = max(a.Left, 0), most
	if d.rested && used < most+most/20 {
		a.Spare = min(most/64, spareBytes)
	}
	if n := d.limits.Processes; n > 0 {
		a.Forks = d.forks(n)
	}
	d.w.proc.Allow(d.usage, a)
	if most == 0 {
		return
	}
	met := timeline.Limit{What: timeline.LimitMemory, Used: used, Max: most, All: whole, Did: timeline.LimitWarned}
	switch {
	case d.mustEnd(used, most):
		d.killed = time.Now()
		met.Did = timeline.LimitEnded
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
	far := used > most+max(most/4, farOver)
	return (far || time.Since(d.over) > killGrace) && time.Since(d.killed) > killGrace
}

// forks decides whether the tree may start processes, and ends the newest where it did so
// all the same.
func (d *ward) forks(n int) host.Forks {
	met := timeline.Limit{What: timeline.LimitProcesses, Used: int64(d.usage.Tasks), Max: int64(n), Did: timeline.LimitRefused}
	over := d.usage.Tasks - n
	switch {
	case over > n/4+8:
		d.w.proc.EndNewest(d.usage, over)
		met.Did = timeline.LimitEnded
		d.w.met(met)
		d.full = true
	case over >= 0 && !d.full:
		d.full = true
		d.w.met(met)
	case over < 0 && d.full:
		d.full = false
		return host.ForksAllowed
	}
	if d.full {
		return host.ForksRefused
	}
	return host.ForksKept
}

// pause is the time until the next look.
func (d *ward) pause(all, total int64) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.limits.Processes; n > 0 && d.usage.Tasks > n/2 {
		return soonest
	}
	left := int64(1) << 50
	if d.limits.Memory > 0 {
		left = d.limits.Memory - d.usage.Memory
	}
	if all > 0 {
		left = min(left, all-total)
	}
	perSecond := int64(runtime.NumCPU()) * fillRate
	next := time.Duration(float64(max(left, 0)) / 4 / float64(perSecond) * float64(time.Second))
	next = max(soonest, min(next, usual))
	d.calm = min(max(d.calm*3/2, next), calmest)
	return d.calm
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
	lacked := e != nil && slices.ContainsFunc(d.noMemory, func(words string) bool {
		return strings.Contains(e.Name, words) || strings.Contains(e.Message, words)
	})
	if !lacked && !d.near && !d.full {
		return
	}
	k := w.s.keeper
	bound, before := k.bound(d), d.usage.Memory
	d.measure(bound, d.turn)
	d.rested = true
	d.enforce(k.all, k.total.Add(d.usage.Memory-before))
	if lacked && bound > 0 {
		w.met(timeline.Limit{What: timeline.LimitMemory, Used: d.peak, Max: bound, All: bound != d.limits.Memory, Did: timeline.LimitRefused})
	}
}
