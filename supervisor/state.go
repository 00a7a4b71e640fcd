package supervisor

import (
	"slices"

	"github.com/turnstone-repl/turnstone/session"
)

// A phase is a session's state in more detail than callers see: several phases share one
// session.State.
type phase uint8

const (
	phasePreparing phase = iota // preparations for a worker are running
	phaseLaunching              // the worker's process is being started
	phaseStarting               // there is a worker, and the start-up is active
	phaseIdle
	phaseSending // a turn is active and waits for the signals of the previous turn
	phaseRunning
	phaseWaiting  // the active turn or the start-up requests input
	phaseLeaving  // the worker has sent session_end
	phaseStopping // the session is stopping the worker
	phaseClosing  // the session is stopping the worker and closing
	phaseEnded    // there is no worker
	phaseClosed   // the session is closed

	numPhases
)

// phases lists the name and state of each phase and every legal transition. Any other transition is
// a bug in this package.
var phases = [numPhases]struct {
	name  string
	state session.State
	next  []phase
}{
	phasePreparing: {"preparing", session.StatePreparing, []phase{phaseLaunching, phaseEnded}},
	phaseLaunching: {"launching", session.StateStarting, []phase{phaseStarting, phaseEnded}},
	phaseStarting:  {"starting", session.StateStarting, []phase{phaseIdle, phaseWaiting, phaseLeaving, phaseStopping, phaseClosing, phaseEnded}},
	phaseIdle:      {"idle", session.StateIdle, []phase{phaseSending, phaseLeaving, phaseStopping, phaseClosing, phaseEnded}},
	phaseSending:   {"sending", session.StateRunning, []phase{phaseIdle, phaseRunning, phaseLeaving, phaseStopping, phaseClosing, phaseEnded}},
	phaseRunning:   {"running", session.StateRunning, []phase{phaseIdle, phaseWaiting, phaseLeaving, phaseStopping, phaseClosing, phaseEnded}},
	phaseWaiting:   {"waiting", session.StateWaiting, []phase{phaseStarting, phaseIdle, phaseRunning, phaseLeaving, phaseStopping, phaseClosing, phaseEnded}},
	phaseLeaving:   {"leaving", session.StateStopping, []phase{phaseStopping, phaseClosing, phaseEnded}},
	phaseStopping:  {"stopping", session.StateStopping, []phase{phaseEnded}},
	phaseClosing:   {"closing", session.StateStopping, []phase{phaseClosed}},
	phaseEnded:     {"ended", session.StateEnded, []phase{phasePreparing, phaseLaunching, phaseClosed}},
	phaseClosed:    {"closed", session.StateEnded, nil},
}

func (p phase) String() string { return phases[p].name }

func (p phase) state() session.State { return phases[p].state }

func isLegalTransition(from, to phase) bool { return slices.Contains(phases[from].next, to) }
