package conn

import (
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
