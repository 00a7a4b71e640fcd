package session

import "fmt"

// State is the state of a session.
type State uint8

const (
	StatePreparing State = iota // the requirements of a worker are being prepared; one input may be queued
	StateStarting               // a worker is starting; one input may be queued
	StateIdle                   // accepts an input
	StateRunning                // one turn is active
	StateWaiting                // the active turn, or the start-up, asks for input
	StateStopping               // its worker is being stopped; accepts nothing
	StateEnded                  // no worker; the next input starts one

	// NumStates is the number of states.
	NumStates
)

var stateNames = [NumStates]string{"preparing", "starting", "idle", "running", "waiting", "stopping", "ended"}

// String returns the state's name.
func (s State) String() string {
	if s < NumStates {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// IsActive reports whether a turn, or the start-up, is running.
func (s State) IsActive() bool {
	return s == StatePreparing || s == StateStarting || s == StateRunning || s == StateWaiting
}

// MarshalText returns the state's name.
func (s State) MarshalText() ([]byte, error) {
	return []byte(s.String()), nil
}

// UnmarshalText reads a state's name.
func (s *State) UnmarshalText(text []byte) error {
	for i, name := range stateNames {
		if name == string(text) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("unknown state %q", text)
}
