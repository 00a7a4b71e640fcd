package supervisor

import "fmt"

// State is where a session stands. One function moves it, against a table.
type State uint8

const (
	StateStarting State = iota // a worker is starting; one input may be held
	StateIdle                  // accepts an input
	StateRunning               // one turn is active
	StateWaiting               // the active turn, or the start-up, asks for input
	StateStopping              // on the stop ladder; accepts nothing
	StateEnded                 // no worker; the next input starts a generation
	numStates
)

func (s State) String() string {
	switch s {
	case StateStarting:
		return "starting"
	case StateIdle:
		return "idle"
	case StateRunning:
		return "running"
	case StateWaiting:
		return "waiting"
	case StateStopping:
		return "stopping"
	case StateEnded:
		return "ended"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// moves lists every legal move. One that is absent here is a bug in this package.
var moves = [numStates][]State{
	StateStarting: {StateIdle, StateWaiting, StateStopping, StateEnded},
	StateIdle:     {StateRunning, StateStopping, StateEnded},
	StateRunning:  {StateIdle, StateWaiting, StateStopping, StateEnded},
	StateWaiting:  {StateStarting, StateIdle, StateRunning, StateStopping, StateEnded},
	StateStopping: {StateEnded},
	StateEnded:    {StateStarting},
}

func legal(from, to State) bool {
	for _, s := range moves[from] {
		if s == to {
			return true
		}
	}
	return false
}

// active reports whether input can neither start nor be lost in s: a turn, or
// the start-up, is under way.
func (s State) active() bool {
	return s == StateStarting || s == StateRunning || s == StateWaiting
}
