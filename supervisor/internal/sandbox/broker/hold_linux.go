package broker

import (
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// pendingCheckInterval is how often a question checks whether its programs still wait. Nothing
// reports that a program was killed.
const pendingCheckInterval = time.Second

// A permissionQuestion is a call, or several equal calls, about which the user must decide.
type permissionQuestion struct {
	id    uint64
	calls []uint64      // the kernel's IDs of its calls
	file  string        // the identity of the file, if the question is about the file
	dir   string        // the identity of its directory, which the question is usually about
	done  chan struct{} // closed when it is decided or withdrawn
}

// holdCall waits until the user has decided about a call. Equal calls share one question. A signal
// ends the call for the kernel; if the program repeats it, it joins the question that is still
// open. A refusal by the user is not reported as a denial.
func (b *Broker) holdCall(n *seccompNotif, d plan.Denial) {
	q := b.questionFor(n, d)
	if q == nil {
		b.reportDenial(d)
		return
	}
	<-q.done
	b.awaitSignal(n)
}

// signalTimeout bounds how long a call stays held for a signal, because a stopped program does not
// receive it.
const signalTimeout = time.Second

// awaitSignal waits while a signal is on its way to the thread of a call, because the signal ends
// the call for the kernel. An interrupt refuses held calls when it is sent. A thread that wakes up
// and finds an answer takes that first, so its code would see the refusal and continue.
func (b *Broker) awaitSignal(n *seccompNotif) {
	for end := time.Now().Add(signalTimeout); b.IsPending(n.ID) && b.isSignalled(int(n.PID)) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// isSignalled reports whether a signal that the thread does not block is pending for it or for its
// process.
func (b *Broker) isSignalled(tid int) bool {
	set := func(name string) uint64 {
		value, err := b.ThreadStatus(tid, name)
		if err != nil {
			return 0
		}
		n, _ := strconv.ParseUint(value, 16, 64)
		return n
	}
	return (set("SigPnd:")|set("ShdPnd:"))&^set("SigBlk:") != 0
}

// questionFor returns the open question about a denial, or opens one. It returns nil if there were
// too many questions.
func (b *Broker) questionFor(n *seccompNotif, d plan.Denial) *permissionQuestion {
	b.mu.Lock()
	q := b.openQuestions[d]
	if q != nil {
		q.calls = append(slices.DeleteFunc(q.calls, func(call uint64) bool { return !b.IsPending(call) }), n.ID)
		b.mu.Unlock()
		return q
	}
	if b.questionCount >= plan.MaxQuestions {
		b.mu.Unlock()
		return nil
	}
	b.questionCount++
	b.lastQuestionID++
	q = &permissionQuestion{id: b.lastQuestionID, calls: []uint64{n.ID}, file: filestate.IdentityOf(d.Path), dir: filestate.IdentityOf(path.Dir(d.Path)), done: make(chan struct{})}
	b.openQuestions[d] = q
	b.mu.Unlock()
	ask := d
	ask.ID = q.id
	b.onDenial(ask)
	go b.watchQuestion(d, q)
	return q
}

// CloseQuestion ends a question. Its calls are made again, and succeed if a grant came first.
func (b *Broker) CloseQuestion(id uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for d, q := range b.openQuestions {
		if q.id == id {
			delete(b.openQuestions, d)
			close(q.done)
			return
		}
	}
}

// watchQuestion reports that a question is withdrawn when none of its programs waits any more. It
// needs two misses, because a program that a signal interrupted repeats its call.
func (b *Broker) watchQuestion(d plan.Denial, q *permissionQuestion) {
	tick := time.NewTicker(pendingCheckInterval)
	defer tick.Stop()
	for missed := 0; missed < 2; {
		select {
		case <-q.done:
			return
		case <-tick.C:
		}
		missed++
		b.mu.Lock()
		if slices.ContainsFunc(q.calls, b.IsPending) {
			missed = 0
		}
		b.mu.Unlock()
	}
	b.CloseQuestion(q.id)
	b.onDenial(plan.Denial{ID: q.id, Resolved: true})
}

// CheckConfirmed returns an error if the file or directory was replaced since the user was asked or
// since the grant was planned.
func (b *Broker) CheckConfirmed(g *plan.MountGrant, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.Identity != "" && g.Identity != id {
		return plan.ErrReplaced
	}
	for d, q := range b.openQuestions {
		identity := ""
		switch string(g.Path) {
		case d.Path:
			identity = q.file
		case filepath.Dir(d.Path):
			identity = q.dir
		}
		if identity != "" && identity != id {
			return plan.ErrReplaced
		}
	}
	return nil
}
