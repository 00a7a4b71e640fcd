package kernel

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// maxQueued bounds the requests in the queue.
const maxQueued = 4096

// A front end that runs several cells sends their requests one after the other. The reply to a failed
// request waits for the next ones: as long as two of them are at most burstDelay apart, and at most
// maxBurstDelay in total.
const (
	burstDelay    = 50 * time.Millisecond
	maxBurstDelay = time.Second
)

var errQueueFull = fmt.Errorf("more than %d requests are queued; the peer was disconnected", maxQueued)

// A requestQueue executes the requests of all peers in the order of their arrival.
type requestQueue struct {
	kernel *kernel
	ready  chan struct{} // holds one element if the queue is not empty

	mu          sync.Mutex
	queue       []*queuedRequest
	lastArrival time.Time      // of an execute request
	lastFailure failedRequest  // the last failure that aborted other requests
	current     *queuedRequest // being executed; nil if none is
	cancel      context.CancelFunc
}

// A failedRequest describes a request that failed. Its fields show which later requests were made
// before its reply.
type failedRequest struct {
	session  string        // of the client
	sentAt   time.Time     // by the clock of the client; zero if unknown
	duration time.Duration // from its arrival to its reply
}

func (q *requestQueue) initKernel(k *kernel) { q.kernel, q.ready = k, make(chan struct{}, 1) }

// addRequest queues a request.
func (q *requestQueue) addRequest(j *queuedRequest) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) >= maxQueued {
		return errQueueFull
	}
	j.arrived = time.Now()
	if j.execute != nil {
		q.lastArrival = j.arrived
	}
	q.queue = append(q.queue, j)
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return nil
}

// runQueue answers requests until the kernel ends.
func (q *requestQueue) runQueue() {
	for {
		j := q.nextRequest()
		if j == nil {
			select {
			case <-q.ready:
				continue
			case <-q.kernel.ctx.Done():
				return
			}
		}
		ctx, cancel := context.WithCancel(q.kernel.ctx)
		q.mu.Lock()
		q.current, q.cancel = j, cancel
		q.mu.Unlock()
		j.answer(ctx, j)
		q.mu.Lock()
		q.current, q.cancel = nil, nil
		q.mu.Unlock()
		cancel()
		if q.kernel.ctx.Err() != nil {
			return
		}
	}
}

func (q *requestQueue) nextRequest() *queuedRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return nil
	}
	j := q.queue[0]
	q.queue = q.queue[1:]
	return j
}

// awaitBurst waits for the rest of the requests that a front end sends in a burst.
func (q *requestQueue) awaitBurst() {
	failed := time.Now()
	for {
		q.mu.Lock()
		last := q.lastArrival
		q.mu.Unlock()
		if last.Before(failed) {
			last = failed
		}
		remaining := time.Until(last.Add(burstDelay))
		if remaining = min(remaining, time.Until(failed.Add(maxBurstDelay))); remaining <= 0 {
			return
		}
		select {
		case <-time.After(remaining):
		case <-q.kernel.ctx.Done():
			return
		}
	}
}

// removeAborted removes all execute requests from the queue, because the one before them has failed. It
// records that failure, so that followsFailure recognizes requests that have not arrived yet.
func (q *requestQueue) removeAborted(failed *queuedRequest) (aborted []*queuedRequest) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastFailure = failedRequest{failed.Header.Session, sentTime(failed.peerRequest), time.Since(failed.arrived)}
	remaining := q.queue[:0:0]
	for _, j := range q.queue {
		if j.execute != nil {
			aborted = append(aborted, j)
		} else {
			remaining = append(remaining, j)
		}
	}
	q.queue = remaining
	return aborted
}

// followsFailure reports whether a request that arrives after the reply to a failed one was made
// before the client could know of the failure. The clock of a client may be wrong, so only
// differences count. For the client, the time from the failed request to its reply is at least as
// long as it was here. So a request that the client made in less time after the failed one was made
// without that knowledge. Dates have a resolution of a millisecond or better. A client that gives
// all its requests the same date has no clock.
func (q *requestQueue) followsFailure(r *peerRequest) bool {
	q.mu.Lock()
	failed := q.lastFailure
	q.mu.Unlock()
	made := sentTime(r)
	if failed.sentAt.IsZero() || made.IsZero() || failed.session != r.Header.Session {
		return false
	}
	after := made.Sub(failed.sentAt)
	return after > 0 && after < failed.duration-time.Millisecond
}

// sentTime returns the time at which the client says it made a request, or the zero time.
func sentTime(r *peerRequest) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} { // old clients give no time zone
		if t, err := time.Parse(layout, r.Header.Date); err == nil {
			return t
		}
	}
	return time.Time{}
}
