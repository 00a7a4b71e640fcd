package protocol

import (
	"cmp"
	"time"
)

// RetryableParams are the params of a call whose effect must happen only once. WithRequestID
// returns them with this request ID.
type RetryableParams interface {
	WithRequestID(request string) any
}

// WaitingParams are the params of a call that waits. WaitTime returns for how long;
// WithWaitTime returns them with another time.
type WaitingParams interface {
	WaitTime() time.Duration
	WithWaitTime(d time.Duration) any
}

// Millis converts a time to milliseconds, as in params. A positive time never becomes 0,
// which would be a poll.
func Millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return max(1, d.Milliseconds())
}

func (p CreateParams) WithRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p EndParams) WithRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p InterruptParams) WithRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p StartParams) WithRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p InputParams) WithRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p TypeParams) WithRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p RemoveFileParams) WithRequestID(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p StartParams) WaitTime() time.Duration { return time.Duration(p.WaitMS) * time.Millisecond }
func (p InputParams) WaitTime() time.Duration { return time.Duration(p.WaitMS) * time.Millisecond }
func (p WaitParams) WaitTime() time.Duration  { return time.Duration(p.WaitMS) * time.Millisecond }

func (p CommsParams) WithWaitTime(d time.Duration) any {
	p.WaitMS = Millis(d)
	return p
}

func (p StartParams) WithWaitTime(d time.Duration) any {
	p.WaitMS = Millis(d)
	return p
}

func (p InputParams) WithWaitTime(d time.Duration) any {
	p.WaitMS = Millis(d)
	return p
}

func (p WaitParams) WithWaitTime(d time.Duration) any {
	p.WaitMS = Millis(d)
	return p
}
