package mcpwire

import "sync"

// A Queue lets calls pass one at a time, in the order in which they joined it.
type Queue struct {
	mu     sync.Mutex
	joined uint64   // guarded by mu; how many calls have joined
	lost   uint64   // guarded by mu; the newest call when one before it was lost
	places []*Place // guarded by mu; the first one may pass
}

// A Place is a call's place in a queue, until it leaves. A nil Place belongs to no queue.
type Place struct {
	queue  *Queue
	number uint64        // from 1, in the order of joining
	first  chan struct{} // closed when the call may pass
}

// Join returns the next place in the queue.
func (q *Queue) Join() *Place {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.joined++
	p := &Place{queue: q, number: q.joined, first: make(chan struct{})}
	q.places = append(q.places, p)
	if len(q.places) == 1 {
		close(p.first)
	}
	return p
}

// Leave lets the next call pass, if this one was the first. It is idempotent.
func (p *Place) Leave() {
	if p == nil {
		return
	}
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.places {
		if other != p {
			continue
		}
		q.places = append(q.places[:i], q.places[i+1:]...)
		if i == 0 && len(q.places) > 0 {
			close(q.places[0].first)
		}
		return
	}
}

// First is closed when the call may pass. One that belongs to no queue may pass at once.
func (p *Place) First() <-chan struct{} {
	if p == nil {
		return passed
	}
	return p.first
}

var passed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// latest returns the number of the call that joined last.
func (p *Place) latest() uint64 {
	if p == nil {
		return 0
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.queue.joined
}

// lose notes that a call was lost when that number was the newest.
func (p *Place) lose(newest uint64) {
	if p == nil {
		return
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	p.queue.lost = max(p.queue.lost, newest)
}

func (p *Place) followsLost() bool {
	if p == nil {
		return false
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.number <= p.queue.lost
}
