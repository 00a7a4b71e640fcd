package launch

import "sync"

// A signalCounter counts signals that were requested from the monitor and are not confirmed yet.
type signalCounter struct {
	mu    sync.Mutex
	count int
	done  chan struct{} // closed at 0; nil if no caller waits
}

// runCounted runs request, which requests a signal, and counts the signal unless request fails.
func (s *signalCounter) runCounted(request func() error) error {
	s.mu.Lock()
	s.count++
	s.mu.Unlock()
	err := request()
	if err != nil {
		s.confirmSent()
	}
	return err
}

func (s *signalCounter) confirmSent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count--; s.count == 0 && s.done != nil {
		close(s.done)
		s.done = nil
	}
}

func (s *signalCounter) signalsSent() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count > 0 && s.done == nil {
		s.done = make(chan struct{})
	}
	return s.done
}
