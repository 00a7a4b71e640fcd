package client

import (
	"cmp"
	"time"
)

// ms is a time in milliseconds, as params have it. A rest of a time is never 0, which would be a
// poll: a poll waits for no turn, and for a link as long as it takes.
func ms(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return max(1, d.Milliseconds())
}

func (p CreateParams) named(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p EndParams) named(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p InterruptParams) named(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p StartParams) named(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p InputParams) named(request string) any {
	p.Request = cmp.Or(p.Request, request)
	return p
}

func (p StartParams) wait() time.Duration { return time.Duration(p.WaitMS) * time.Millisecond }
func (p InputParams) wait() time.Duration { return time.Duration(p.WaitMS) * time.Millisecond }
func (p WaitParams) wait() time.Duration  { return time.Duration(p.WaitMS) * time.Millisecond }

func (p StartParams) waiting(d time.Duration) any {
	p.WaitMS = ms(d)
	return p
}

func (p InputParams) waiting(d time.Duration) any {
	p.WaitMS = ms(d)
	return p
}

func (p WaitParams) waiting(d time.Duration) any {
	p.WaitMS = ms(d)
	return p
}
