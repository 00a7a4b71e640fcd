package tools

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// An Examined says whether a server works.
type Examined struct {
	Name   string
	Err    error  // why it does not start, with its last words
	Detail string // its tools, and how long it took to start
}

// Examine starts all servers side by side, and says what came of each, in their order.
func (s *Set) Examine(ctx context.Context) []Examined {
	list := make([]Examined, len(s.servers))
	var all sync.WaitGroup
	for i, one := range s.servers {
		all.Go(func() {
			begun := time.Now()
			_, err := one.connected(ctx)
			list[i] = Examined{Name: one.Name, Err: err}
			if err == nil {
				list[i].Detail = one.described(time.Since(begun))
			}
		})
	}
	all.Wait()
	return list
}

// described counts the tools of a server that took some time to start.
func (s *server) described(took time.Duration) string {
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
	if len(s.left) > 0 {
		text += "; left out: " + strings.Join(s.left[:min(len(s.left), shownLeft)], ", ")
	}
	return text
}
