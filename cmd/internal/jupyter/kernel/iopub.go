package kernel

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/zsock"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxNotes bounds the messages for a peer that are in no timeline; the oldest are dropped.
const maxNotes = 1024

// subscribers are the peers on the iopub channel.
type subscribers struct {
	k *kernel

	mu      sync.Mutex
	peers   map[*subscriber]struct{}
	started bool          // the first has been told that the kernel starts
	sent    chan struct{} // closed when a peer has sent all its notes
}

func (s *subscribers) init(k *kernel) {
	s.k, s.peers, s.sent = k, make(map[*subscriber]struct{}), make(chan struct{})
}

// A note is a message that is in no timeline.
type note struct {
	parent  *wire.Header
	kind    string
	content json.RawMessage
	topic   string // of a welcome

	// It belongs behind the event at of the life: what caused it.
	life *life
	at   timeline.Seq
}

// A subscriber is one peer on the iopub channel.
type subscriber struct {
	k    *kernel
	conn *zsock.Conn

	mu     sync.Mutex
	topics map[string]struct{}
	notes  []note
	ready  chan struct{} // holds one when there are notes
	idle   bool          // all notes are sent
	life   *life         // whose events it is being sent
	cursor timeline.Seq  // of the last one
}

// serve sends to a peer, and reads its subscriptions meanwhile. It begins with the first one.
func (s *subscribers) serve(conn *zsock.Conn) {
	p := &subscriber{k: s.k, conn: conn, topics: make(map[string]struct{}), ready: make(chan struct{}, 1)}
	if !p.subscribe() {
		return
	}
	now, _ := s.k.sessions.current()
	var after timeline.Seq
	if now != nil {
		after = now.cursor()
	}
	s.add(p)
	defer s.remove(p)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer conn.Close()
	tasks.Go(func() {
		defer conn.Close()
		for p.subscribe() {
		}
	})
	p.run(now, after)
}

// subscribe takes the next subscription of the peer and welcomes it. It is false when the peer
// is gone.
func (p *subscriber) subscribe() bool {
	for {
		frames, err := p.conn.Recv()
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
		if len(p.topics) < maxNotes {
			p.topics[topic] = struct{}{}
		}
		p.mu.Unlock()
		content, _ := json.Marshal(map[string]string{"subscription": topic})
		p.tell(note{kind: "iopub_welcome", content: content, topic: topic})
		return true
	}
}

func (s *subscribers) add(p *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[p] = struct{}{}
	if !s.started {
		s.started = true
		content, _ := json.Marshal(status{"starting"})
		p.tell(note{kind: "status", content: content})
	}
}

func (s *subscribers) remove(p *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
	s.sentLocked()
}

func (s *subscribers) sentLocked() {
	close(s.sent)
	s.sent = make(chan struct{})
}

// tell sends a message that is in no timeline to all peers.
func (s *subscribers) tell(parent *wire.Header, kind string, content any) {
	raw, err := json.Marshal(content)
	if err != nil {
		s.k.note("%v", err)
		return
	}
	n := note{parent: parent, kind: kind, content: raw}
	if n.life, _ = s.k.sessions.current(); n.life != nil {
		n.at = n.life.cursor()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		p.tell(n)
	}
}

// drain waits until all peers have what they were told, or until the limit.
func (s *subscribers) drain(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		left, sent := 0, s.sent
		for p := range s.peers {
			if p.behind() {
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

func (p *subscriber) tell(n note) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, n)
	if len(p.notes) > maxNotes {
		p.notes = p.notes[1:]
	}
	p.idle = false
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

func (p *subscriber) behind() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.idle
}

// flush sends the notes whose time has come.
func (p *subscriber) flush() error {
	for {
		n, ok := p.next()
		if !ok {
			return nil
		}
		if err := p.send(n); err != nil {
			return err
		}
	}
}

// next takes the next note, unless an event has to be sent before it.
func (p *subscriber) next() (n note, ok bool) {
	p.mu.Lock()
	if len(p.notes) > 0 && !p.early(p.notes[0]) {
		n, ok = p.notes[0], true
		p.notes = p.notes[1:]
	}
	p.idle = len(p.notes) == 0 && !ok
	idle := p.idle
	p.mu.Unlock()
	if idle {
		p.k.subs.mu.Lock()
		p.k.subs.sentLocked()
		p.k.subs.mu.Unlock()
	}
	return n, ok
}

// early reports whether an event that belongs before a note was not sent yet.
func (p *subscriber) early(n note) bool {
	switch {
	case n.life == nil:
		return false
	case n.life == p.life:
		return n.at > p.cursor && n.life.alive()
	}
	return p.life == nil || n.life.number > p.life.number
}

// moved notes how far the peer has got.
func (p *subscriber) moved(l *life, to timeline.Seq) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life != l {
		p.life, p.cursor = l, 0
	}
	p.cursor = max(p.cursor, to)
}

// send writes one message, if the peer has subscribed to its topic.
func (p *subscriber) send(n note) error {
	topic := n.topic
	if n.kind != "iopub_welcome" {
		topic = "kernel." + p.k.id + "." + n.kind
		if !p.wants(topic) {
			return nil
		}
	}
	m := wire.Message{
		Identities: [][]byte{[]byte(topic)},
		Header:     wire.NewHeader(p.k.id, "kernel", n.kind), Content: n.content,
	}
	if n.parent != nil {
		m.Parent = *n.parent
	}
	frames, err := p.k.codec.Encode(&m)
	if err != nil {
		return err
	}
	return p.conn.Send(frames...)
}

func (p *subscriber) wants(topic string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t := range p.topics {
		if strings.HasPrefix(topic, t) {
			return true
		}
	}
	return false
}

// run sends events of the session of now, from a cursor on, and of each that follows it, until
// the peer or the kernel leaves.
func (p *subscriber) run(l *life, after timeline.Seq) {
	for {
		next, err := p.follow(l, after)
		if err != nil || next == nil {
			return
		}
		l, after = next, next.start
	}
}

// follow sends what happens in one life, and returns the next one; nil when the kernel leaves.
func (p *subscriber) follow(l *life, after timeline.Seq) (*life, error) {
	ctx, stop := context.WithCancel(p.k.ctx)
	defer stop()
	events := make(chan timeline.Event) // has no room, so that the cursor moves as messages are taken
	if l != nil {
		var reading sync.WaitGroup
		defer reading.Wait()
		defer stop()
		reading.Go(func() { l.read(ctx, after, events) })
	}
	s := &script{p: p, life: l}
	p.moved(l, after)
	if err := p.flush(); err != nil {
		return nil, err
	}
	defer s.timer().Stop()
	for {
		now, changed := p.k.sessions.current()
		if now != l {
			return now, s.flush(true)
		}
		var err error
		select {
		case <-p.ready:
			err = p.flush()
		case e := <-events:
			if err = p.flush(); err == nil { // A status may belong before the event, or behind it.
				err = s.event(ctx, e)
			}
			p.moved(l, last(e))
			if err == nil {
				err = p.flush()
			}
		case <-s.timer().C:
			s.armed = false
			err = s.flush(false)
		case <-changed:
		case <-p.conn.Closed():
			return nil, nil
		case <-ctx.Done():
			p.moved(l, math.MaxUint64) // Nothing comes before the last notes any more.
			return nil, p.flush()
		}
		if err != nil {
			return nil, err
		}
	}
}

// last is the cursor behind an event.
func last(e timeline.Event) timeline.Seq {
	if gap, ok := e.Body.(timeline.Gap); ok {
		return max(e.Seq, gap.To)
	}
	return e.Seq
}

// read hands on the events after a cursor until the life is over or ctx ends.
func (l *life) read(ctx context.Context, after timeline.Seq, events chan<- timeline.Event) {
	for ctx.Err() == nil {
		for e, err := range l.s.Events(ctx, after) {
			if err != nil {
				break
			}
			select {
			case events <- e:
				after = max(after, last(e))
			case <-ctx.Done():
				return
			}
		}
		_, _, changed, over := l.state(0)
		if over != nil {
			return // Those who follow the life tell what became of it.
		}
		select {
		case <-changed:
		case <-time.After(againTime): // The daemon may be reached again by then.
		case <-ctx.Done():
		}
	}
}
