package conn

import (
	"encoding/json"
	"errors"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

const (
	// MaxQueuedBytes is how much may be queued for the reader of a subscription before its
	// stream is paused, which costs the daemon nothing. The stream continues once half of that
	// is read. In the meantime up to a megabyte that the daemon has queued, and one
	// notification, may still arrive.
	MaxQueuedBytes = 4 << 20

	// messageOverhead is the approximate memory of a notification in addition to its text.
	messageOverhead = 512

	// maxEarlySubscriptions bounds the subscriptions with notifications that arrived before
	// their reply was read.
	maxEarlySubscriptions = 64
)

// A Receiver gets the notifications of a subscription. Neither function may block.
type Receiver struct {
	Enqueue func(m *jsonrpc2.Message)
	End     func(err error)
}

// A Backlog is a bounded queue of notifications that wait for their reader.
type Backlog struct {
	messages   []*jsonrpc2.Message
	bytes      int
	overflowed bool // later notifications were dropped
}

// Add appends a notification.
func (b *Backlog) Add(m *jsonrpc2.Message) {
	b.messages = append(b.messages, m)
	b.bytes += len(m.Params) + messageOverhead
}

// Size returns the approximate memory of the notifications, in bytes.
func (b *Backlog) Size() int { return b.bytes }

// PopOldest removes and returns the oldest notification; nil if there is none.
func (b *Backlog) PopOldest() *jsonrpc2.Message {
	if len(b.messages) == 0 {
		return nil
	}
	m := b.messages[0]
	b.messages[0] = nil
	b.messages = b.messages[1:]
	b.bytes -= len(m.Params) + messageOverhead
	return m
}

// deliverToReceiver hands a notification to the receiver of its subscription.
func (c *Conn) deliverToReceiver(m *jsonrpc2.Message) {
	var p struct {
		Subscription string `json:"subscription"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.receivers[p.Subscription]; ok {
		w.Enqueue(m)
	} else {
		c.bufferEarlyLocked(p.Subscription, m)
	}
}

// bufferEarlyLocked stores a notification of a subscription whose reply is not read yet.
func (c *Conn) bufferEarlyLocked(id string, m *jsonrpc2.Message) {
	b := c.earlyBacklogs[id]
	switch {
	case b == nil && len(c.earlyBacklogs) >= maxEarlySubscriptions:
	case b == nil:
		b = &Backlog{}
		c.earlyBacklogs[id] = b
		b.Add(m)
	case b.bytes > MaxQueuedBytes:
		b.overflowed = true
	default:
		b.Add(m)
	}
}

// AddReceiver delivers the notifications of a subscription to w, including those that arrived
// before its reply was read.
func (c *Conn) AddReceiver(id string, w Receiver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.receivers[id] = w
	if b := c.earlyBacklogs[id]; b != nil {
		for _, m := range b.messages {
			w.Enqueue(m)
		}
		if b.overflowed {
			w.End(errors.New("client: too many notifications arrived before the reply; subscribe again after the last event that you have seen"))
		}
		delete(c.earlyBacklogs, id)
	}
	if c.err != nil {
		w.End(c.err)
	}
}

// RemoveReceiver ends the delivery of a subscription's notifications.
func (c *Conn) RemoveReceiver(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.receivers, id)
}

// AddKeepAlive makes the connection be probed until release is called, if it is remote.
func (c *Conn) AddKeepAlive() (release func()) { return c.rpc.AddKeepAlive() }
