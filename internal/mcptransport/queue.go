package mcptransport

import "sync"

// A Queue admits calls one at a time, in the order in which they joined.
type Queue struct {
	mu           sync.Mutex
	lastPosition uint64         // guarded by mu; how many calls have joined
	lost         uint64         // guarded by mu; the newest call at the time of the last loss
	tickets      []*QueueTicket // guarded by mu; the first one may proceed
}

// A QueueTicket is a call's position in a queue, until it leaves. A nil QueueTicket belongs to no
// queue.
type QueueTicket struct {
	queue    *Queue
	position uint64        // from 1, in the order of joining
	ready    chan struct{} // closed when the call may proceed
}

// Join adds a call at the end of the queue.
func (q *Queue) Join() *QueueTicket {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastPosition++
	t := &QueueTicket{queue: q, position: q.lastPosition, ready: make(chan struct{})}
	q.tickets = append(q.tickets, t)
	if len(q.tickets) == 1 {
		close(t.ready)
	}
	return t
}

// Leave removes the call, and admits the next one if this one was first. It is idempotent.
func (t *QueueTicket) Leave() {
	if t == nil {
		return
	}
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.tickets {
		if other != t {
			continue
		}
		q.tickets = append(q.tickets[:i], q.tickets[i+1:]...)
		if i == 0 && len(q.tickets) > 0 {
			close(q.tickets[0].ready)
		}
		return
	}
}

// Ready returns a channel that is closed when the call may proceed. Without a queue, it is closed
// from the start.
func (t *QueueTicket) Ready() <-chan struct{} {
	if t == nil {
		return closedChannel
	}
	return t.ready
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// newestPosition returns the number of the call that joined last.
func (t *QueueTicket) newestPosition() uint64 {
	if t == nil {
		return 0
	}
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return t.queue.lastPosition
}

// markLost records that a call was lost while newest was the last to have joined.
func (t *QueueTicket) markLost(newest uint64) {
	if t == nil {
		return
	}
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.queue.lost = max(t.queue.lost, newest)
}

func (t *QueueTicket) followsLost() bool {
	if t == nil {
		return false
	}
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	return t.position <= t.queue.lost
}
