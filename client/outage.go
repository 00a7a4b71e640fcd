package client

import "time"

// An Outage is a period without a connection.
type Outage struct {
	From  time.Time
	To    time.Time // zero while it lasts
	Cause error     // why the connection ended
}

// maxOutages bounds the outages that a Client remembers.
const maxOutages = 32

// outageLog has the outages of one daemon. The zero value has none.
type outageLog struct {
	current Outage   // its From is zero if there is none
	past    []Outage // the most recent ones, in order of time
}

// isDown reports whether there is an outage now.
func (l *outageLog) isDown() bool { return !l.current.From.IsZero() }

// end ends the current outage, if there is one, and returns it.
func (l *outageLog) end() Outage {
	over := l.current
	if over.From.IsZero() {
		return over
	}
	over.To, l.current = time.Now(), Outage{}
	l.past = append(l.past, over)
	l.past = l.past[max(0, len(l.past)-maxOutages):]
	return over
}

// downtime returns how long there was an outage since a time. An outage that had started before
// that time counts only if it lasted for at least another second.
func (l *outageLog) downtime(since time.Time) (down time.Duration) {
	for _, o := range append(l.past[:len(l.past):len(l.past)], l.current) {
		if o.From.IsZero() {
			continue
		}
		if o.To.IsZero() {
			o.To = time.Now()
		}
		known := o.From.Before(since)
		if known {
			o.From = since
		}
		if d := o.To.Sub(o.From); d > 0 && (!known || d >= time.Second) {
			down += d
		}
	}
	return down
}
