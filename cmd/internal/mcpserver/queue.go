package mcpserver

import (
	"context"
	"sync"
)

// A queue lets calls pass one at a time, in the order in which they joined it.
type queue struct {
	mu     sync.Mutex
	joined uint64   // guarded by mu; how many have
	places []*place // guarded by mu; the first may pass
}

// A place is a call's in a queue, until it leaves. A nil place is one in no queue.
type place struct {
	queue  *queue
	number uint64        // from 1, by the order of joining
	first  chan struct{} // closed when the call may pass
}

func (q *queue) join() *place {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.joined++
	p := &place{queue: q, number: q.joined, first: make(chan struct{})}
	q.places = append(q.places, p)
	if len(q.places) == 1 {
		close(p.first)
	}
	return p
}

// leave lets the next call pass, if this one was the first. It is idempotent.
func (p *place) leave() {
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

// latest is the number of the call that joined last.
func (p *place) latest() uint64 {
	if p == nil {
		return 0
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.queue.joined
}

// named finds the session that a call is about, and the call's place among those that
// are about it: both in the order in which the calls came.
func (r *request) named(ctx context.Context, find func() (*view, error)) (*view, error) {
	defer r.arrival.leave()
	select {
	case <-r.arrival.first:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	v, err := find()
	if err == nil {
		r.lane = v.lane.join()
	}
	return v, err
}

// begun lets the calls behind this one pass.
func (r *request) begun() {
	r.arrival.leave()
	r.lane.leave()
}
