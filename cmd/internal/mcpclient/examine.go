package mcpclient

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A CheckResult says whether a server works.
type CheckResult struct {
	Name   string
	Err    error  // why it does not start, with its last words
	Detail string // its tools, and how long it took to start
}

// CheckServers starts all servers side by side, and says what came of each, in their order.
func (s *ServerSet) CheckServers(ctx context.Context) []CheckResult {
	list := make([]CheckResult, len(s.servers))
	var all sync.WaitGroup
	for i, one := range s.servers {
		all.Go(func() {
			begun := time.Now()
			_, err := one.ensureConnected(ctx)
			list[i] = CheckResult{Name: one.Name, Err: err}
			if err == nil {
				list[i].Detail = one.describeTools(time.Since(begun))
			}
		})
	}
	all.Wait()
	return list
}

// describeTools counts the tools of a server that took some time to start.
func (s *server) describeTools(took time.Duration) string {
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
		text += "; left out: " + strings.Join(s.omitted[:min(len(s.omitted), maxShownOmitted)], ", ")
	}
	return text
}
