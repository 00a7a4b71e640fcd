package supervisor

import (
	"slices"

	"github.com/turnstone-repl/turnstone/session"
)

// A phase is where a session stands: its state, with what no caller has to know.
type phase uint8

const (
	phasePreparing phase = iota // what a worker needs is being made
	phaseLaunching              // its process is being started
	phaseStarting               // there is a worker, and the start-up is active
	phaseIdle
	phaseSending // a turn is active that waits for the signals of the one before
	phaseRunning
	phaseWaiting  // the active turn, or the start-up, asks for input
	phaseLeaving  // the worker said that it ends
	phaseStopping // we end the worker
	phaseClosing  // we end it, and the session with it
	phaseEnded    // there is no worker
	phaseClosed   // there will be none

	numPhases
)

// phases lists the name and state of each phase and every legal move. One that is absent
// here is a bug in this package.
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
