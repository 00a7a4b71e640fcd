package confine

import (
	"path"
	"slices"
	"strconv"
	"time"
)

// lookAgain is how often a question looks whether its programs still wait. Nothing else tells
// that one was killed.
const lookAgain = time.Second

// A question is a call, or several equal ones, that a person has to decide about.
type question struct {
	id    uint64
	calls []uint64      // the kernel's numbers of its calls
	file  string        // the identity of the file; a person is asked for it
	dir   string        // or, as a rule, for its directory: likewise
	done  chan struct{} // closed when it is decided or over
}

// hold waits until a person has decided about a call. Equal calls are one question. A signal ends
// the call for the kernel. If the program then makes it again, it joins the question that is
// still open. A refusal is not told: whoever refused knows.
func (b *Box) hold(n *notification, d Denial) {
	q := b.question(n, d)
	if q == nil {
		b.denied(d)
		return
	}
	<-q.done
	b.awaitSignal(n)
}

// signalLimit bounds how long a call stays held for a signal: a program that is stopped takes none.
const signalLimit = time.Second

// awaitSignal waits while a signal is on its way to the thread of a call, which ends the call for the
// kernel. An interrupt refuses held calls as soon as it is sent, and a thread that wakes up and
// finds an answer takes that first: its code would see the refusal, and go on with it.
func (b *Box) awaitSignal(n *notification) {
	for end := time.Now().Add(signalLimit); b.isHere(n.ID) && b.isSignalled(int(n.PID)) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// isSignalled reports whether a signal that the thread does not block is on its way to it or to its
// process.
func (b *Box) isSignalled(tid int) bool {
	set := func(name string) uint64 {
		value, err := b.status(tid, name)
		if err != nil {
			return 0
		}
		n, _ := strconv.ParseUint(value, 16, 64)
		return n
	}
	return (set("SigPnd:")|set("ShdPnd:"))&^set("SigBlk:") != 0
}

// question returns the open question about a denial, or asks one. It returns nil if too many
// were asked.
func (b *Box) question(n *notification, d Denial) *question {
	b.mu.Lock()
	q := b.open[d]
	if q != nil {
		q.calls = append(slices.DeleteFunc(q.calls, func(call uint64) bool { return !b.isHere(call) }), n.ID)
		b.mu.Unlock()
		return q
	}
	if b.asked >= maxAsked {
		b.mu.Unlock()
		return nil
	}
	b.asked++
	b.last++
	q = &question{id: b.last, calls: []uint64{n.ID}, file: identity(d.Path), dir: identity(path.Dir(d.Path)), done: make(chan struct{})}
	b.open[d] = q
	b.mu.Unlock()
	ask := d
	ask.ID = q.id
	b.tell(ask)
	go b.watch(d, q)
	return q
}

// Permit ends a question. Its calls go on, and succeed if a grant came first.
func (b *Box) Permit(id uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for d, q := range b.open {
		if q.id == id {
			delete(b.open, d)
			close(q.done)
			return
		}
	}
}

// watch tells that a question is over when none of its programs waits any more. It looks twice:
// a program that a signal interrupted makes its call again.
func (b *Box) watch(d Denial, q *question) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for missed := 0; missed < 2; {
		select {
		case <-q.done:
			return
		case <-tick.C:
		}
		missed++
		b.mu.Lock()
		if slices.ContainsFunc(q.calls, b.isHere) {
			missed = 0
		}
		b.mu.Unlock()
	}
	b.Permit(q.id)
	b.tell(Denial{ID: q.id, Over: true})
}
