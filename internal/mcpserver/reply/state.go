package reply

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// stateLine returns the bracketed line of a reply; it may be "". A refused input comes first,
// because otherwise a model would take the rest for the result of its own code.
func (s *CallState) stateLine(r session.Reply) string {
	state, advice := s.stateAndAdvice(r)
	advice = s.Wording.NameTools(advice)
	var facts []string
	if s.Refused {
		reason := s.Refusal
		if reason == "" && state == "" {
			reason = "other code was running, and has ended since: send it again"
		}
		if reason == "" {
			reason, state = state, ""
		}
		what := InputNotRun
		if s.TypesKeys {
			what = "your keys were NOT typed"
		}
		facts = append(facts, what+": "+reason)
	}
	if state != "" {
		facts = append(facts, state)
	}
	if r.UnreadKeys > 0 && r.State.IsActive() { // otherwise a notice says it
		facts = append(facts, unreadText(r.UnreadKeys))
	}
	facts = append(facts, s.Facts...)
	if len(facts) == 0 {
		return ""
	}
	if state == "" && !s.Refused && s.isSilent(r) {
		facts = append([]string{doneText(r) + ", no output"}, facts...)
	}
	return "[" + strings.Join(facts, "; ") + advice + "]"
}

// InputNotRun starts the line about a refused input.
const InputNotRun = "your input was NOT run"

// stateAndAdvice describes the state of the session, and what the model can do; both may be "".
func (s *CallState) stateAndAdvice(r session.Reply) (state, advice string) {
	switch {
	case r.InputRequest != nil:
		return s.inputRequestText(r.InputRequest), s.RequestAdvice
	case r.State == session.StateEnded && HasFailedStart(r):
		return s.Wording.StartAdvice(), ""
	case r.State == session.StateEnded:
		if !HasEvent[timeline.WorkerExited](r) {
			return "the session ended: input starts a new one", ""
		}
	case r.Outcome == timeline.OutcomeInterrupted && (s.Ran || HasEvent[timeline.TurnEnded](r)):
		return fmt.Sprintf("interrupted after %.1f s", r.Elapsed.Seconds()) + s.outputElsewhere(r), ""
	case r.Outcome != "":
		// The text of the turn shows how it ended, if it is in this reply.
		if where := s.outputElsewhere(r); where != "" {
			return doneText(r) + where, ""
		}
	case r.State == session.StateStarting:
		return fmt.Sprintf("starting %.1f s", r.Elapsed.Seconds()), ": call repl_output to wait, repl_reset to start again"
	case r.State == session.StateRunning && s.IgnoredInterrupts == 1:
		return "still running " + ProgressText(r) + ": the interrupt had no effect yet", ". Interrupt again, which is harder to ignore, or repl_reset"
	case r.State == session.StateRunning && s.IgnoredInterrupts > 1:
		return fmt.Sprintf("still running %s: %d interrupts had no effect", ProgressText(r), s.IgnoredInterrupts), ". repl_reset ends it, and its variables are lost"
	case r.State == session.StateRunning, r.State == session.StateStopping:
		state = r.State.String() + " " + ProgressText(r)
		if s.Refused && s.Refusal == "" {
			state = "the session is still " + state
		}
		return state, ": call repl_output to wait, repl_interrupt to stop"
	}
	return "", ""
}

// outputElsewhere reports that another call has received all output of the turn that this call
// started. Each piece is delivered once.
func (s *CallState) outputElsewhere(r session.Reply) string {
	if !s.Started || r.OutputBytes == 0 || s.hasOutput {
		return ""
	}
	return "; its output is in the reply to another call"
}

// unreadText says that a program has not read all keys.
func unreadText(bytes int) string {
	if bytes == 1 {
		return "1 typed byte was not read"
	}
	return fmt.Sprintf("%d typed bytes were not read", bytes)
}

// inputRequestText describes an input request. It leaves out the drawing of a full-screen
// program, which is not a prompt.
func (s *CallState) inputRequestText(w *session.InputRequest) string {
	switch {
	case w.Permission != nil:
		return permissionText(w)
	case w.Form != nil:
		return "waiting for the user: " + OneLine(w.Form.Question())
	}
	const mayContinue = "polls and may continue by itself"
	mayType := s.RequestAdvice == "" // otherwise the user answers
	if (s.FullScreen || s.showsDrawn) && w.Terminal && !w.Secret {
		state := "waiting for input (full-screen program " + w.Reader
		if w.Polls {
			state += ", " + mayContinue
		}
		if state += ")"; mayType {
			state += s.Wording.NameTools(": answer with " + enterHint + ", or repl_interrupt")
		}
		return state
	}
	state := "waiting for input"
	if w.Secret {
		state = "waiting for a secret"
	}
	var about []string
	if w.Terminal && w.Reader != "" {
		about = append(about, w.Reader)
	}
	if w.Kind == timeline.InputKindDebugger || w.Kind == timeline.InputKindContinue {
		about = append(about, string(w.Kind))
	}
	if w.Raw && mayType {
		about = append(about, "takes "+enterHint)
	}
	if w.Polls {
		about = append(about, mayContinue)
	}
	if len(about) > 0 {
		state += " (" + strings.Join(about, ", ") + ")"
	}
	if prompt := timeline.TerminalText(w.Prompt); prompt != "" {
		state += fmt.Sprintf(": %q", text.ShortenStart(prompt, maxPromptChars))
	}
	return state
}

// ProgressText describes the progress of a turn.
func ProgressText(r session.Reply) string {
	output := "no output so far"
	if r.OutputBytes > 0 {
		output = text.Bytes(r.OutputBytes) + " so far"
	}
	if r.Listener != nil {
		output += "; " + text.OneLine(r.Listener.Program) + " listens for keys"
	}
	return fmt.Sprintf("%.1f s, %s%s", r.Elapsed.Seconds(), output, openCallsText(r.PendingCalls))
}

// openCallsText names the host functions that a turn waits for. It skips functions that return
// quickly.
func openCallsText(list []session.PendingCall) string {
	const slow, most = 500 * time.Millisecond, 3
	list = slices.DeleteFunc(slices.Clone(list), func(c session.PendingCall) bool { return time.Since(c.Since) < slow })
	text := ""
	for i, c := range list[:min(len(list), most)] {
		text += ", "
		if i == 0 {
			text += "calling "
		}
		text += c.Name
		if c.Running > 1 {
			text += fmt.Sprintf(" × %d", c.Running)
		}
		text += fmt.Sprintf(" for %.1f s", time.Since(c.Since).Seconds())
	}
	if len(list) > most {
		text += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return text
}

// LastOutputLine returns the last line of the turn's output for a user: short, and without
// control characters.
func LastOutputLine(r session.Reply) string {
	const maxBytes, maxChars = 4 << 10, 120 // examined bytes, shown characters
	var output []byte
	for _, e := range slices.Backward(r.Events) {
		if b, ok := e.Body.(timeline.Text); ok && e.Turn == r.Turn && !e.BetweenTurns {
			output = slices.Concat(b.Data[max(0, len(b.Data)-maxBytes):], output)
		}
		if len(output) >= maxBytes {
			_, output, _ = bytes.Cut(output, []byte("\n")) // the first line lacks its beginning
			break
		}
	}
	lines := strings.FieldsFunc(timeline.TerminalText(string(output)), func(c rune) bool { return c == '\n' })
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(strings.Map(func(c rune) rune {
			if unicode.Is(unicode.Cf, c) || unicode.IsControl(c) {
				return -1
			}
			return c
		}, line))
		if line != "" {
			return ": " + text.Shorten(line, maxChars)
		}
	}
	return ""
}

// permissionText describes a request for a permission.
func permissionText(w *session.InputRequest) string {
	if w.Permission.Call != "" {
		return "waiting for a permission: code wants to " + w.Permission.AccessDenied.String()
	}
	return "waiting for a permission: the sandbox blocks " + w.Permission.AccessDenied.String()
}

// maxPromptChars bounds the end of a prompt that is shown in a question or a state line.
const maxPromptChars = 300

// OneLine returns the end of a prompt as one line.
func OneLine(prompt string) string { return text.ShortenStart(withoutControls(prompt), maxPromptChars) }

// withoutControls returns text as one line, without control characters.
func withoutControls(text string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, timeline.TerminalText(text)))
}

// doneText says how a turn ended, and how long it took if that was a second or more.
func doneText(r session.Reply) string {
	text := map[timeline.Outcome]string{
		timeline.OutcomeOK: "done", timeline.OutcomeError: "an error ended it", timeline.OutcomeEnded: "the session ended",
	}[r.Outcome]
	if r.Elapsed >= time.Second {
		text += fmt.Sprintf(" after %.1f s", r.Elapsed.Seconds())
	}
	return text
}
