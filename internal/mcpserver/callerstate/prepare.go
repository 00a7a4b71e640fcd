package callerstate

import (
	"fmt"
	"sync"
	"time"
)

// maxOpening bounds the sessions of one client that are not open yet, because a session in
// preparation counts toward no other limit.
const maxOpening = 64

// A preparation is the progress of a session that is being prepared.
type preparation struct {
	mu       sync.Mutex
	progress string    // guarded by mu; the last message; "" without preparation
	since    time.Time // guarded by mu; time of the first message
}

func (p *preparation) setProgress(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress == "" {
		p.since = time.Now()
	}
	p.progress = line
}

// isUnderWay reports whether the session is being prepared, which may take minutes.
func (p *preparation) isUnderWay() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress != ""
}

// describeProgress describes the progress of a session that is not open.
func (p *preparation) describeProgress() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress == "" {
		return "opening"
	}
	return fmt.Sprintf("preparing %.1f s: %s", time.Since(p.since).Seconds(), p.progress)
}
