package supervisor

import "github.com/turnstone-repl/turnstone/session"

// moves lists every legal move. One that is absent here is a bug in this package.
var moves = [session.NumStates][]session.State{
	session.StateStarting: {session.StateIdle, session.StateWaiting, session.StateStopping, session.StateEnded},
	session.StateIdle:     {session.StateRunning, session.StateStopping, session.StateEnded},
	session.StateRunning:  {session.StateIdle, session.StateWaiting, session.StateStopping, session.StateEnded},
	session.StateWaiting:  {session.StateStarting, session.StateIdle, session.StateRunning, session.StateStopping, session.StateEnded},
	session.StateStopping: {session.StateEnded},
	session.StateEnded:    {session.StateStarting},
}

func legal(from, to session.State) bool {
	for _, s := range moves[from] {
		if s == to {
			return true
		}
	}
	return false
}
