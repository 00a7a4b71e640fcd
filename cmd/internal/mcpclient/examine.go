package mcpclient

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A CheckResult reports whether a server starts, and describes its tools.
type CheckResult struct {
	Name   string
	Err    error  // why it did not start, with its last output
	Detail string // the number of tools, and the start time
}

// CheckServers starts all servers concurrently, and returns a result for each, in order.
func (s *ServerSet) CheckServers(ctx context.Context) []CheckResult {
	list := make([]CheckResult, len(s.servers))
	var all sync.WaitGroup
	for i, one := range s.servers {
		all.Go(func() {
			start := time.Now()
			_, err := one.ensureConnected(ctx)
			list[i] = CheckResult{Name: one.Name, Err: err}
			if err == nil {
				list[i].Detail = one.describeTools(time.Since(start))
			}
		})
	}
	all.Wait()
	return list
}

// describeTools describes the tools of a server, and how long it took to start.
func (s *toolServer) describeTools(took time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	destructive := 0
	for _, t := range s.tools {
		if isDestructive(t) {
			destructive++
		}
	}
	text := fmt.Sprintf("tools: %d, of which it marks %d as destructive; started in %.1f s", len(s.tools), destructive, took.Seconds())
	if s.Group != s.Name {
		text += "; called " + s.Group + " in code"
	}
	if len(s.omitted) > 0 {
		text += "; skipped: " + strings.Join(s.omitted[:min(len(s.omitted), maxShownOmitted)], ", ")
	}
	return text
}
