package elicitation

import (
	"context"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
)

// answerAs answers w as the author of s. The error is session.ErrStale if w is over.
func answerAs(ctx context.Context, s session.Session, w *session.InputRequest, in session.Input) error {
	_, err := s.Answer(ctx, w.ID, in)
	return err
}

// asUser returns the session with the user as its author.
func (c *AskingCall) asUser() session.Session { return c.Session.As("user") }

// userInput returns the user's answer as input.
func userInput(text string) session.Input {
	return session.Input{Data: []byte(WithNewline(text))}
}

// WithNewline appends the newline that line readers need.
func WithNewline(text string) string {
	if text != "" && strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// applyChoice applies a choice of the user.
func applyChoice(ctx context.Context, user session.Session, p session.PermissionRequest, decision string) error {
	switch g := p.Grant; decision {
	case choiceAllowAlways:
		g.Always = true
		return user.Allow(ctx, g)
	case choiceAllowSession, choiceDeny:
		return user.AnswerPermission(ctx, p.ID, decision == choiceAllowSession)
	case choiceAllowFile:
		return user.Allow(ctx, *p.FileGrant())
	}
	return user.Allow(ctx, *p.Wider)
}

// The choices of a user who is asked for a permission, as the client shows them.
const (
	choiceAllowSession = "allow in this session"
	choiceAllowFile    = "allow only this file, in this session"
	choiceAllowAlways  = "always allow in this workspace"
	choiceDeny         = "no"
)
