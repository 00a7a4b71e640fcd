package mcptransport

import "sync"

// A Queue lets calls pass one at a time, in the order in which they joined it.
type Queue struct {
	mu           sync.Mutex
	lastPosition uint64         // guarded by mu; how many calls have joined
	lost         uint64         // guarded by mu; the newest call when one before it was lost
	tickets      []*QueueTicket // guarded by mu; the first one may pass
}

// A QueueTicket is a call's place in a queue, until it leaves. A nil QueueTicket belongs to no queue.
type QueueTicket struct {
	queue    *Queue
	position uint64        // from 1, in the order of joining
	ready    chan struct{} // closed when the call may pass
}

// Join returns the next place in the queue.
func (q *Queue) Join() *QueueTicket {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastPosition++
	p := &QueueTicket{queue: q, position: q.lastPosition, ready: make(chan struct{})}
	q.tickets = append(q.tickets, p)
	if len(q.tickets) == 1 {
		close(p.ready)
	}
	return p
}

// Leave lets the next call pass, if this one was the first. It is idempotent.
func (p *QueueTicket) Leave() {
	if p == nil {
		return
	}
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.tickets {
		if other != p {
			continue
		}
		q.tickets = append(q.tickets[:i], q.tickets[i+1:]...)
		if i == 0 && len(q.tickets) > 0 {
			close(q.tickets[0].ready)
		}
		return
	}
}

// Ready is closed when the call may pass. One that belongs to no queue may pass at once.
func (p *QueueTicket) Ready() <-chan struct{} {
	if p == nil {
		return closedChannel
	}
	return p.ready
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// newestPosition returns the number of the call that joined last.
func (p *QueueTicket) newestPosition() uint64 {
	if p == nil {
		return 0
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.queue.lastPosition
}

// markLost notes that a call was lost when that number was the newest.
func (p *QueueTicket) markLost(newest uint64) {
	if p == nil {
		return
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	p.queue.lost = max(p.queue.lost, newest)
}

func (p *QueueTicket) followsLost() bool {
	if p == nil {
		return false
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.position <= p.queue.lost
}
