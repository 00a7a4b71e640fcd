package jsonrpc2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// ErrAbandoned is a cause of the end of a context for a call whose answer nobody needs, but whose
// effect somebody does. The other side gets no cancel then.
var ErrAbandoned = errors.New("jsonrpc2: the call is abandoned")

// An Answer is the result of a call. Buffer is the bytes that followed its line; nil without.
type Answer struct {
	Result json.RawMessage
	Buffer []byte
}

// Call calls a method of the other side. Params that are Buffered have bytes that follow the line. The
// error is an *Error from the answer, an *EndedError, or the error of ctx. When ctx ends, the other
// side gets a cancel, except for the cause ErrAbandoned.
func (c *Conn) Call(ctx context.Context, method string, params any) (Answer, error) {
	if ctx.Err() != nil {
		return Answer{}, ctx.Err()
	}
	p, line, err := c.newCall(method, params)
	if err != nil {
		return Answer{}, err
	}
	if err := c.lockWithRoom(ctx); err != nil {
		return Answer{}, ctx.Err()
	}
	err = c.startCallLocked(p, line)
	c.mu.Unlock()
	if err != nil {
		return Answer{}, err
	}
	return c.AwaitAnswer(ctx, p)
}

// A PendingRequest is a call that was sent and has no answer yet.
type PendingRequest struct {
	id     string
	answer chan answer
}

// AwaitAnswer waits for the answer to a call; see Call for its errors.
func (c *Conn) AwaitAnswer(ctx context.Context, p *PendingRequest) (Answer, error) {
	id, answered := p.id, p.answer
	if a, ok := c.waitForAnswer(ctx, answered); ok {
		if ended := (*EndedError)(nil); errors.As(a.err, &ended) && ctx.Err() != nil {
			return Answer{}, ctx.Err() // the end of ctx may have ended the connection as well
		}
		return a.Answer, a.err
	}
	if errors.Is(context.Cause(ctx), ErrAbandoned) {
		c.forgetCall(id)
		return Answer{}, ctx.Err()
	}
	_ = c.Notify(MethodCancelled, map[string]json.RawMessage{"requestId": json.RawMessage(id)})
	timeout := time.NewTimer(c.options.CancelTimeout)
	defer timeout.Stop()
	// The answer reports the cancel, or is the result if the call had already finished.
	select {
	case a := <-answered:
		if a.err == nil {
			return a.Answer, nil
		}
	case <-timeout.C:
		c.forgetCall(id)
	}
	return Answer{}, ctx.Err()
}

// forgetCall drops the answer to a call.
func (c *Conn) forgetCall(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
	c.updateWantedLocked()
}

// StartCall sends a call without waiting. The caller gets the answer from AwaitAnswer.
func (c *Conn) StartCall(method string, params any) (*PendingRequest, error) {
	p, line, err := c.newCall(method, params)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return p, c.startCallLocked(p, line)
}

// newCall returns a new call and its encoded line.
func (c *Conn) newCall(method string, params any) (*PendingRequest, outgoing, error) {
	p := &PendingRequest{id: strconv.FormatUint(c.lastID.Add(1), 10), answer: make(chan answer, 1)}
	params, buffer := splitBuffer(params)
	line, err := requestLine(p.id, method, params)
	switch {
	case err != nil:
	case len(line) > c.options.MaxSend:
		err = &SizeError{len(line), c.options.MaxSend}
	case len(buffer) > MaxBufferBytes:
		err = &SizeError{len(buffer), MaxBufferBytes}
	}
	return p, outgoing{withBuffer(line, buffer), buffer}, err
}

// startCallLocked registers a call and queues its line. The caller holds c.mu.
func (c *Conn) startCallLocked(p *PendingRequest, line outgoing) error {
	if c.endedErr != nil {
		return c.endedErr
	}
	c.calls[p.id] = p.answer
	if err := c.sendLocked(line); err != nil {
		delete(c.calls, p.id)
		return &EndedError{err}
	}
	c.updateWantedLocked()
	return nil
}

// waitForAnswer waits for the answer to a call, or the end of the connection. It returns false when
// ctx ends.
func (c *Conn) waitForAnswer(ctx context.Context, answered <-chan answer) (answer, bool) {
	var tick <-chan time.Time
	if c.options.Probe != "" {
		ticker := time.NewTicker(c.options.ProbeInterval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case a := <-answered:
			return a, true
		case <-ctx.Done():
			return answer{}, false
		case now := <-tick:
			c.probePeer(now)
		}
	}
}

// probePeer sends a probe if no data has come for ProbeInterval. It drops the connection if none
// has come for as long after the probe.
func (c *Conn) probePeer(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	heard := c.LastActivity()
	switch {
	case now.Sub(heard) < c.options.ProbeInterval:
		c.probeSent = time.Time{}
	case c.probeSent.IsZero() || !heard.Before(c.probeSent):
		c.probeSent = now
		line, err := requestLine(`"probe"`, c.options.Probe, nil)
		if err == nil {
			_ = c.sendLocked(outgoing{line: line}) // on a broken connection the call has already failed
		}
	case now.Sub(c.probeSent) >= c.options.ProbeInterval:
		c.dropLocked(fmt.Errorf("no answer for %s", c.options.ProbeInterval))
	}
}

// failCallsLocked fails all calls, with why as the cause. The caller holds c.mu.
func (c *Conn) failCallsLocked(why error) {
	if c.endedErr != nil {
		return
	}
	c.endedErr = &EndedError{why}
	for id, answered := range c.calls {
		delete(c.calls, id)
		answered <- answer{err: c.endedErr}
	}
}
