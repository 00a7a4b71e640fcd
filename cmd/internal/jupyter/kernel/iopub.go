package kernel

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/zmtp"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxQueuedMessages bounds the messages for a peer that are not in a timeline; the oldest are dropped.
const maxQueuedMessages = 1024

// subscribers is the set of peers on the iopub channel.
type subscribers struct {
	kernel *kernel

	mu      sync.Mutex
	peers   map[*subscriber]struct{}
	started bool          // the status starting was sent, to the first peer
	sent    chan struct{} // closed when a peer's queue is empty, or the peer is gone
}

func (s *subscribers) initKernel(k *kernel) {
	s.kernel, s.peers, s.sent = k, make(map[*subscriber]struct{}), make(chan struct{})
}

// An iopubMessage is a message for the peers that is not in a timeline.
type iopubMessage struct {
	parent  *wire.Header
	kind    string
	content json.RawMessage
	topic   string // of a welcome

	// The event of the session after which the message must be sent, because it was its cause.
	session *attachedSession
	after   timeline.Seq
}

// A subscriber sends messages and events to a peer on the iopub channel.
type subscriber struct {
	kernel *kernel
	conn   *zmtp.Conn

	mu      sync.Mutex
	topics  map[string]struct{}
	queue   []iopubMessage
	ready   chan struct{}    // holds one element if queue is not empty
	idle    bool             // all queued messages were sent
	session *attachedSession // whose events are being sent
	cursor  timeline.Seq     // of the last event that was sent
}

// servePeer sends to a peer and reads its subscriptions concurrently. It starts once the first one arrives.
func (s *subscribers) servePeer(conn *zmtp.Conn) {
	p := &subscriber{kernel: s.kernel, conn: conn, topics: make(map[string]struct{}), ready: make(chan struct{}, 1)}
	if !p.readSubscription() {
		return
	}
	now, _ := s.kernel.sessions.latestSession()
	var after timeline.Seq
	if now != nil {
		after = now.eventCursor()
	}
	s.addPeer(p)
	defer s.removePeer(p)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer conn.Close()
	tasks.Go(func() {
		defer conn.Close()
		for p.readSubscription() {
		}
	})
	p.followSession(now, after)
}

// readSubscription reads the peer's next subscription and welcomes it. It returns false if the peer is
// gone.
func (p *subscriber) readSubscription() bool {
	for {
		frames, err := p.conn.Receive()
		if err != nil {
			return false
		}
		if len(frames) != 1 || len(frames[0]) == 0 || frames[0][0] > 1 {
			continue // the specification lets publishers ignore other messages
		}
		topic := string(frames[0][1:])
		p.mu.Lock()
		if frames[0][0] == 0 {
			delete(p.topics, topic)
			p.mu.Unlock()
			continue
		}
		if len(p.topics) < maxQueuedMessages {
			p.topics[topic] = struct{}{}
		}
		p.mu.Unlock()
		content, _ := json.Marshal(map[string]string{"subscription": topic})
		p.enqueue(iopubMessage{kind: "iopub_welcome", content: content, topic: topic})
		return true
	}
}

func (s *subscribers) addPeer(p *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[p] = struct{}{}
	if !s.started {
		s.started = true
		content, _ := json.Marshal(statusContent{"starting"})
		p.enqueue(iopubMessage{kind: "status", content: content})
	}
}

func (s *subscribers) removePeer(p *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
	s.signalSentLocked()
}

func (s *subscribers) signalSentLocked() {
	close(s.sent)
	s.sent = make(chan struct{})
}

// publish sends a message that is not in a timeline to all peers.
func (s *subscribers) publish(parent *wire.Header, kind string, content any) {
	raw, err := json.Marshal(content)
	if err != nil {
		s.kernel.printNotice("%v", err)
		return
	}
	n := iopubMessage{parent: parent, kind: kind, content: raw}
	if n.session, _ = s.kernel.sessions.latestSession(); n.session != nil {
		n.after = n.session.eventCursor()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		p.enqueue(n)
	}
}

// awaitSent waits until all queued messages were sent, for limit at most.
func (s *subscribers) awaitSent(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		left, sent := 0, s.sent
		for p := range s.peers {
			if p.hasUnsent() {
				left++
			}
		}
		s.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-sent:
		case <-timer.C:
			return
		}
	}
}

func (p *subscriber) enqueue(n iopubMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, n)
	if len(p.queue) > maxQueuedMessages {
		p.queue = p.queue[1:]
	}
	p.idle = false
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

func (p *subscriber) hasUnsent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.idle
}

// flushQueue sends the queued messages that need not wait for an event.
func (p *subscriber) flushQueue() error {
	for {
		n, ok := p.nextMessage()
		if !ok {
			return nil
		}
		if err := p.sendMessage(n); err != nil {
			return err
		}
	}
}

// nextMessage removes the next message from the queue, unless an event must be sent before it.
func (p *subscriber) nextMessage() (n iopubMessage, ok bool) {
	p.mu.Lock()
	if len(p.queue) > 0 && !p.isEarly(p.queue[0]) {
		n, ok = p.queue[0], true
		p.queue = p.queue[1:]
	}
	p.idle = len(p.queue) == 0 && !ok
	idle := p.idle
	p.mu.Unlock()
	if idle {
		p.kernel.subs.mu.Lock()
		p.kernel.subs.signalSentLocked()
		p.kernel.subs.mu.Unlock()
	}
	return n, ok
}

// isEarly reports whether an event that must precede a message has not been sent yet.
func (p *subscriber) isEarly(n iopubMessage) bool {
	switch {
	case n.session == nil:
		return false
	case n.session == p.session:
		return n.after > p.cursor && n.session.isAlive()
	}
	return p.session == nil || n.session.number > p.session.number
}

// setCursor records up to which event the peer has been served.
func (p *subscriber) setCursor(l *attachedSession, to timeline.Seq) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != l {
		p.session, p.cursor = l, 0
	}
	p.cursor = max(p.cursor, to)
}

// sendMessage writes one message, if the peer has subscribed to its topic.
func (p *subscriber) sendMessage(n iopubMessage) error {
	topic := n.topic
	if n.kind != "iopub_welcome" {
		topic = "kernel." + p.kernel.id + "." + n.kind
		if !p.isSubscribed(topic) {
			return nil
		}
	}
	m := wire.Message{
		Identities: [][]byte{[]byte(topic)},
		Header:     wire.NewHeader(p.kernel.id, "kernel", n.kind), Content: n.content,
	}
	if n.parent != nil {
		m.Parent = *n.parent
	}
	frames, err := p.kernel.codec.Encode(&m)
	if err != nil {
		return err
	}
	return p.conn.Send(frames...)
}

func (p *subscriber) isSubscribed(topic string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t := range p.topics {
		if strings.HasPrefix(topic, t) {
			return true
		}
	}
	return false
}

// followSession sends the events of a session after a cursor, and of each session that replaces it, until
// the peer or the kernel ends.
func (p *subscriber) followSession(l *attachedSession, after timeline.Seq) {
	for {
		next, err := p.sendSession(l, after)
		if err != nil || next == nil {
			return
		}
		l, after = next, next.start
	}
}

// sendSession sends the events of one session, and returns the next session, or nil when the kernel ends.
func (p *subscriber) sendSession(l *attachedSession, after timeline.Seq) (*attachedSession, error) {
	ctx, stop := context.WithCancel(p.kernel.ctx)
	defer stop()
	events := make(chan timeline.Event) // unbuffered, so that the cursor advances as messages are sent
	if l != nil {
		var reading sync.WaitGroup
		defer reading.Wait()
		defer stop()
		reading.Go(func() { l.readEvents(ctx, after, events) })
	}
	s := &turnWriter{peer: p, session: l}
	p.setCursor(l, after)
	if err := p.flushQueue(); err != nil {
		return nil, err
	}
	defer s.ensureTimer().Stop()
	for {
		now, changed := p.kernel.sessions.latestSession()
		if now != l {
			return now, s.flushText(true)
		}
		var err error
		select {
		case <-p.ready:
			err = p.flushQueue()
		case e := <-events:
			if err = p.flushQueue(); err == nil { // a status may belong before the event, or after it
				err = s.writeEvent(ctx, e)
			}
			p.setCursor(l, cursorAfter(e))
			if err == nil {
				err = p.flushQueue()
			}
		case <-s.ensureTimer().C:
			s.timerRuns = false
			err = s.flushText(false)
		case <-changed:
		case <-p.conn.Closed():
			return nil, nil
		case <-ctx.Done():
			p.setCursor(l, math.MaxUint64) // no event precedes the last messages
			return nil, p.flushQueue()
		}
		if err != nil {
			return nil, err
		}
	}
}

// cursorAfter returns the cursor after an event.
func cursorAfter(e timeline.Event) timeline.Seq {
	if gap, ok := e.Body.(timeline.Gap); ok {
		return max(e.Seq, gap.To)
	}
	return e.Seq
}

// readEvents passes on the events after a cursor until the session or ctx ends.
func (l *attachedSession) readEvents(ctx context.Context, after timeline.Seq, events chan<- timeline.Event) {
	for ctx.Err() == nil {
		for e, err := range l.session.Events(ctx, after) {
			if err != nil {
				break
			}
			select {
			case events <- e:
				after = max(after, cursorAfter(e))
			case <-ctx.Done():
				return
			}
		}
		_, _, changed, over := l.turnState(0)
		if over != nil {
			return // followEvents has recorded why
		}
		select {
		case <-changed:
		case <-time.After(reconnectDelay): // the daemon may be reachable again by then
		case <-ctx.Done():
		}
	}
}
