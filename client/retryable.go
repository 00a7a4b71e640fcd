package client

import (
	"cmp"
	"time"
)

// retryableParams are the params of a call whose effect must happen only once. withRequestID
// returns them with this request ID.
type retryableParams interface {
	withRequestID(request string) any
}

// waitingParams are the params of a call that waits. waitTime returns for how long;
// withWaitTime returns them with another time.
type waitingParams interface {
	waitTime() time.Duration
	withWaitTime(d time.Duration) any
}

// toMillis converts a time to milliseconds, as in params. A positive time never becomes 0,
// which would be a poll.
func toMillis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return max(1, d.Milliseconds())
}

func (p CreateParams) withRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p EndParams) withRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p InterruptParams) withRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p StartParams) withRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p InputParams) withRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p TypeParams) withRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p StartParams) waitTime() time.Duration { return time.Duration(p.WaitMS) * time.Millisecond }
func (p InputParams) waitTime() time.Duration { return time.Duration(p.WaitMS) * time.Millisecond }
func (p WaitParams) waitTime() time.Duration  { return time.Duration(p.WaitMS) * time.Millisecond }

func (p StartParams) withWaitTime(d time.Duration) any {
	p.WaitMS = toMillis(d)
	return p
}

func (p InputParams) withWaitTime(d time.Duration) any {
	p.WaitMS = toMillis(d)
	return p
}

func (p WaitParams) withWaitTime(d time.Duration) any {
	p.WaitMS = toMillis(d)
	return p
}
