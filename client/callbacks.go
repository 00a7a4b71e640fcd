package client

import (
	"encoding/json"
	"sync"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

// The callbacks of a caller get the notifications that belong to no subscription, and the calls of
// functions. The zero value has none.
type callbacks struct {
	host functionHost // functions of this program, which the daemon calls

	mu         sync.Mutex
	onProgress func(protocol.PreparationProgress) // guarded by mu
	onTurn     map[string]func(uint64)            // guarded by mu; for the turn of a request
}

// OnProgress sets a callback for the progress of preparations. nil removes it.
func (c *callbacks) OnProgress(f func(protocol.PreparationProgress)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onProgress = f
}

func (c *callbacks) functionHost() *functionHost { return &c.host }

// watchTurn calls f when the daemon reports which turn a request has started, until stop is
// called.
func (c *callbacks) watchTurn(request string, f func(turn uint64)) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.onTurn == nil {
		c.onTurn = make(map[string]func(uint64))
	}
	c.onTurn[request] = f
	return func() { c.takeTurn(request) }
}

// takeTurn removes and returns the callback for the turn of a request.
func (c *callbacks) takeTurn(request string) func(uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.onTurn[request]
	delete(c.onTurn, request)
	return f
}

// handleNotification calls the callback for a notification, without holding the lock.
func (c *callbacks) handleNotification(m *jsonrpc2.Message) {
	switch m.Method {
	case protocol.MethodTurnAccepted:
		var b protocol.TurnAccepted
		if json.Unmarshal(m.Params, &b) != nil {
			return
		}
		if f := c.takeTurn(b.Request); f != nil {
			f(b.Turn)
		}
	case protocol.MethodProgress:
		var p protocol.PreparationProgress
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		c.mu.Lock()
		f := c.onProgress
		c.mu.Unlock()
		if f != nil {
			f(p)
		}
	}
}
