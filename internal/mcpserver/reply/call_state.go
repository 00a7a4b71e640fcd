package reply

import (
	"context"
	"slices"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A CallState holds everything that a reply says in addition to the events: facts about a call, its
// caller and its session.
type CallState struct {
	Session        string // its name
	TranscriptName string // how replies name the rendered transcript
	Author         string // of the caller's turns

	// RewriteEvent adapts an event of the session for this client; it may be nil.
	RewriteEvent func(timeline.Event) timeline.Event

	// ReadScreen returns the screen of the session's terminal; it may be nil.
	ReadScreen func(context.Context) (session.Screen, error)

	Wording   Wording
	Profile   clientprofile.Profile
	Images    *ImageStore
	ImageSide int

	FirstLine     string   // of the reply; may be ""
	Facts         []string // for the state line
	RequestAdvice string   // what the model can do about an input request that it must not answer

	FullScreen  bool // before the events, the terminal is on its alternate screen
	StartFailed bool // the last worker before the events did not start

	Ran               bool   // the call started or continued a turn
	Started           bool   // the call started the turn
	Restarted         bool   // the call has restarted the interpreter
	TypesKeys         bool   // the input is keys
	Refused           bool   // the input was not used
	Refusal           string // why, if the state does not say it
	IgnoredInterrupts int    // ineffective interrupts of the running turn

	hasOutput  bool // the reply has output, even if it is not shown
	showsDrawn bool // the reply shows the screen of a full-screen program
}

// isSilent reports whether the reply ends a turn without output. Everything else in the reply is
// then about the session, or an earlier turn.
func (s *CallState) isSilent(r session.Reply) bool {
	if r.Outcome != timeline.OutcomeOK || !s.Ran && !HasEvent[timeline.TurnEnded](r) {
		return false
	}
	return !slices.ContainsFunc(r.Events, func(e timeline.Event) bool {
		switch e.Body.(type) {
		case timeline.Text, timeline.Display:
			return e.Turn == r.Turn
		}
		return false
	})
}
