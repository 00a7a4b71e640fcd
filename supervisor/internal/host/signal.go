package host

import "sync"

// Signal is what can be sent to a worker.
type Signal uint8

const (
	Interrupt Signal = iota // SIGINT
	Hangup                  // SIGHUP
	Terminate               // SIGTERM
	Kill                    // SIGKILL
)

func (s Signal) String() string {
	return [...]string{"SIGINT", "SIGHUP", "SIGTERM", "SIGKILL"}[s]
}

// Target is who gets a signal.
type Target uint8

const (
	Worker     Target = iota // the worker's process
	Group                    // the worker's process group
	Foreground               // the terminal's foreground group, if it is neither the worker's nor the stage's
)

func (t Target) String() string {
	return [...]string{"worker", "group", "foreground"}[t]
}

// sending counts the signals that the stage was told to send and has not yet confirmed.
type sending struct {
	mu    sync.Mutex
	count int
	done  chan struct{} // closed at 0; nil when nobody asked
}

// tell counts the signal that order asks for, and takes it back when that fails.
func (s *sending) tell(order func() error) error {
	s.mu.Lock()
	s.count++
	s.mu.Unlock()
	err := order()
	if err != nil {
		s.confirmed()
	}
	return err
}

func (s *sending) confirmed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count--; s.count == 0 && s.done != nil {
		close(s.done)
		s.done = nil
	}
}

func (s *sending) underWay() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count > 0 && s.done == nil {
		s.done = make(chan struct{})
	}
	return s.done
}
