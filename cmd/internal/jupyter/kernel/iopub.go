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

// maxQueuedMessages bounds the messages for a peer that are in no timeline; the oldest are dropped.
const maxQueuedMessages = 1024

// subscribers are the peers on the iopub channel.
type subscribers struct {
	kernel *kernel

	mu      sync.Mutex
	peers   map[*subscriber]struct{}
	started bool          // the first has been told that the kernel starts
	sent    chan struct{} // closed when a peer has sent all its notes
}

func (s *subscribers) initKernel(k *kernel) {
	s.kernel, s.peers, s.sent = k, make(map[*subscriber]struct{}), make(chan struct{})
}

// An iopubMessage is a message that is in no timeline.
type iopubMessage struct {
	parent  *wire.Header
	kind    string
	content json.RawMessage
	topic   string // of a welcome

	// It belongs behind the event at of the life: what caused it.
	session *attachedSession
	after   timeline.Seq
}

// A subscriber is one peer on the iopub channel.
type subscriber struct {
	kernel *kernel
	conn   *zmtp.Conn

	mu      sync.Mutex
	topics  map[string]struct{}
	queue   []iopubMessage
	ready   chan struct{}    // holds one when there are notes
	idle    bool             // all notes are sent
	session *attachedSession // whose events it is being sent
	cursor  timeline.Seq     // of the last one
}

// servePeer sends to a peer, and reads its subscriptions meanwhile. It begins with the first one.
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
	p.sendSessions(now, after)
}

// readSubscription takes the next subscription of the peer and welcomes it. It is false when the peer
// is gone.
func (p *subscriber) readSubscription() bool {
	for {
		frames, err := p.conn.Receive()
		if err != nil {
			return false
		}
		if len(frames) != 1 || len(frames[0]) == 0 || frames[0][0] > 1 {
			continue // The specification lets publishers ignore what is no subscription.
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

// publish sends a message that is in no timeline to all peers.
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

// awaitSent waits until all peers have what they were told, or until the limit.
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

// flushQueue sends the notes whose time has come.
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

// nextMessage takes the next note, unless an event has to be sent before it.
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

// isEarly reports whether an event that belongs before a note was not sent yet.
func (p *subscriber) isEarly(n iopubMessage) bool {
	switch {
	case n.session == nil:
		return false
	case n.session == p.session:
		return n.after > p.cursor && n.session.isAlive()
	}
	return p.session == nil || n.session.number > p.session.number
}

// setCursor notes how far the peer has got.
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

// sendSessions sends events of the session of now, from a cursor on, and of each that follows it, until
// the peer or the kernel leaves.
func (p *subscriber) sendSessions(l *attachedSession, after timeline.Seq) {
	for {
		next, err := p.sendSession(l, after)
		if err != nil || next == nil {
			return
		}
		l, after = next, next.start
	}
}

// sendSession sends what happens in one life, and returns the next one; nil when the kernel leaves.
func (p *subscriber) sendSession(l *attachedSession, after timeline.Seq) (*attachedSession, error) {
	ctx, stop := context.WithCancel(p.kernel.ctx)
	defer stop()
	events := make(chan timeline.Event) // has no room, so that the cursor moves as messages are taken
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
			if err = p.flushQueue(); err == nil { // A status may belong before the event, or behind it.
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
			p.setCursor(l, math.MaxUint64) // Nothing comes before the last notes any more.
			return nil, p.flushQueue()
		}
		if err != nil {
			return nil, err
		}
	}
}

// cursorAfter is the cursor behind an event.
func cursorAfter(e timeline.Event) timeline.Seq {
	if gap, ok := e.Body.(timeline.Gap); ok {
		return max(e.Seq, gap.To)
	}
	return e.Seq
}

// readEvents hands on the events after a cursor until the life is over or ctx ends.
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
			return // Those who follow the life tell what became of it.
		}
		select {
		case <-changed:
		case <-time.After(reconnectDelay): // The daemon may be reached again by then.
		case <-ctx.Done():
		}
	}
}
