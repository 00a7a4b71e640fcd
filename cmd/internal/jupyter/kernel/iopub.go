package kernel

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/comms"
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
	comm    comms.Message // its metadata and buffers
	topic   string        // of a welcome

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
func (sub *subscriber) readSubscription() bool {
	for {
		frames, err := sub.conn.Receive()
		if err != nil {
			return false
		}
		if len(frames) != 1 || len(frames[0]) == 0 || frames[0][0] > 1 {
			continue // the specification lets publishers ignore other messages
		}
		topic := string(frames[0][1:])
		sub.mu.Lock()
		if frames[0][0] == 0 {
			delete(sub.topics, topic)
			sub.mu.Unlock()
			continue
		}
		if len(sub.topics) < maxQueuedMessages {
			sub.topics[topic] = struct{}{}
		}
		sub.mu.Unlock()
		content, _ := json.Marshal(map[string]string{"subscription": topic})
		sub.enqueue(iopubMessage{kind: "iopub_welcome", content: content, topic: topic})
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
	s.publishComm(parent, comms.Message{Kind: kind, Content: content})
}

// publishComm sends a message that may have buffers to all peers.
func (s *subscribers) publishComm(parent *wire.Header, m comms.Message) {
	raw, err := json.Marshal(m.Content)
	if err != nil {
		s.kernel.printNotice("%v", err)
		return
	}
	n := iopubMessage{parent: parent, kind: m.Kind, content: raw, comm: m}
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

func (sub *subscriber) enqueue(n iopubMessage) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.queue = append(sub.queue, n)
	if len(sub.queue) > maxQueuedMessages {
		sub.queue = sub.queue[1:]
	}
	sub.idle = false
	select {
	case sub.ready <- struct{}{}:
	default:
	}
}

func (sub *subscriber) hasUnsent() bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return !sub.idle
}

// flushQueue sends the queued messages that need not wait for an event.
func (sub *subscriber) flushQueue() error {
	for {
		n, ok := sub.nextMessage()
		if !ok {
			return nil
		}
		if err := sub.sendMessage(n); err != nil {
			return err
		}
	}
}

// nextMessage removes the next message from the queue, unless an event must be sent before it.
func (sub *subscriber) nextMessage() (n iopubMessage, ok bool) {
	sub.mu.Lock()
	if len(sub.queue) > 0 && !sub.isEarly(sub.queue[0]) {
		n, ok = sub.queue[0], true
		sub.queue = sub.queue[1:]
	}
	sub.idle = len(sub.queue) == 0 && !ok
	idle := sub.idle
	sub.mu.Unlock()
	if idle {
		sub.kernel.subs.mu.Lock()
		sub.kernel.subs.signalSentLocked()
		sub.kernel.subs.mu.Unlock()
	}
	return n, ok
}

// isEarly reports whether an event that must precede a message has not been sent yet.
func (sub *subscriber) isEarly(n iopubMessage) bool {
	switch {
	case n.session == nil:
		return false
	case n.session == sub.session:
		return n.after > sub.cursor && n.session.isAlive()
	}
	return sub.session == nil || n.session.number > sub.session.number
}

// setCursor records the last event that was sent to the peer.
func (sub *subscriber) setCursor(l *attachedSession, to timeline.Seq) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.session != l {
		sub.session, sub.cursor = l, 0
	}
	sub.cursor = max(sub.cursor, to)
}

func (sub *subscriber) sentUntil() timeline.Seq {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.cursor
}

// sendMessage writes one message, if the peer has subscribed to its topic.
func (sub *subscriber) sendMessage(n iopubMessage) error {
	topic := n.topic
	if n.kind != "iopub_welcome" {
		topic = "kernel." + sub.kernel.id + "." + n.kind
		if !sub.isSubscribed(topic) {
			return nil
		}
	}
	m := wire.Message{
		Identities: [][]byte{[]byte(topic)},
		Header:     wire.NewHeader(sub.kernel.id, "kernel", n.kind), Content: n.content,
		Metadata: n.comm.Metadata, Buffers: n.comm.Buffers,
	}
	if n.parent != nil {
		m.Parent = *n.parent
	}
	frames, err := sub.kernel.codec.Encode(&m)
	if err != nil {
		return err
	}
	return sub.conn.Send(frames...)
}

func (sub *subscriber) isSubscribed(topic string) bool {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	for t := range sub.topics {
		if strings.HasPrefix(topic, t) {
			return true
		}
	}
	return false
}

// followSession sends the events of a session after a cursor, and of each session that replaces it, until
// the peer or the kernel ends.
func (sub *subscriber) followSession(l *attachedSession, after timeline.Seq) {
	for {
		next, err := sub.sendSession(l, after)
		if err != nil || next == nil {
			return
		}
		l, after = next, next.start
	}
}

// sendSession sends the events of one session, and returns the next session, or nil when the kernel ends.
func (sub *subscriber) sendSession(l *attachedSession, after timeline.Seq) (*attachedSession, error) {
	ctx, stop := context.WithCancel(sub.kernel.ctx)
	defer stop()
	events := make(chan timeline.Event) // unbuffered, so that the cursor advances as messages are sent
	commsChanged := make(chan timeline.Seq)
	if l != nil {
		var reading sync.WaitGroup
		defer reading.Wait()
		defer stop()
		reading.Go(func() { l.readEvents(ctx, after, events) })
		reading.Go(func() { comms.Watch(ctx, l.session, commsChanged) })
	}
	s := &turnWriter{peer: sub, session: l, comms: l.newCommCursor(ctx)}
	sub.setCursor(l, after)
	if err := sub.flushQueue(); err != nil {
		return nil, err
	}
	defer s.ensureTimer().Stop()
	for {
		now, changed := sub.kernel.sessions.latestSession()
		if now != l {
			return now, s.flushText(true)
		}
		var err error
		select {
		case <-sub.ready:
			err = sub.flushQueue()
		case e := <-events:
			if err = sub.flushQueue(); err == nil { // a status may belong before the event, or after it
				err = s.writeEvent(ctx, e)
			}
			sub.setCursor(l, cursorAfter(e))
			if err == nil {
				err = sub.flushQueue()
			}
			if err == nil {
				err = s.writeDueComms(ctx)
			}
		case <-s.ensureTimer().C:
			s.timerRuns = false
			err = s.flushText(false)
		case s.commsDue = <-commsChanged:
			err = s.writeDueComms(ctx)
		case <-changed:
		case <-sub.conn.Closed():
			return nil, nil
		case <-ctx.Done():
			sub.setCursor(l, math.MaxUint64) // no event precedes the last messages
			return nil, sub.flushQueue()
		}
		if err != nil {
			return nil, err
		}
	}
}
