package console

import (
	"context"
	"io"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
)

// A PermissionChoice is the user's decision about a permission request.
type PermissionChoice uint8

const (
	Refuse      PermissionChoice = iota
	AllowHere                    // in this session
	AllowAlways                  // also in later sessions of the workspace
	AllowWider                   // if a wider right exists
)

// PermissionPrompt returns the prompt for a decision.
func PermissionPrompt(p session.PermissionRequest) string {
	if p.Wider == nil {
		return "y (in this session), a (always in this workspace) or n: "
	}
	return "y (this one, in this session), s (all of " + p.Wider.Call + " that are not destructive, in this session), a (this one, always in this workspace) or n: "
}

// ParsePermissionChoice reads a decision. ok is false if the line is not a valid choice.
func ParsePermissionChoice(p session.PermissionRequest, line string) (c PermissionChoice, ok bool) {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return AllowHere, true
	case "a", "always":
		return AllowAlways, true
	case "s", "server":
		if p.Wider != nil {
			return AllowWider, true
		}
	case "n", "no":
		return Refuse, true
	}
	return Refuse, false
}

// ApplyPermissionChoice carries out the user's decision about a permission.
func ApplyPermissionChoice(ctx context.Context, s session.Session, p session.PermissionRequest, c PermissionChoice) error {
	if c == AllowAlways {
		g := p.Grant
		g.Always = true
		return s.Allow(ctx, g)
	}
	if c == AllowWider && p.Wider != nil {
		return s.Allow(ctx, *p.Wider)
	}
	return s.AnswerPermission(ctx, p.ID, c == AllowHere)
}

// resetStyle ends colours left on by code, which could make a question unreadable.
const resetStyle = "\x1b[0m"

// printQuestion prints a question that only the user may answer.
func (c *conversation) printQuestion(question string) {
	if !c.options.Plain {
		_, _ = io.WriteString(c.editor, resetStyle)
	}
	c.printer.printNotice(question)
	c.editor.keys.discardTyped() // earlier input was not meant for this question
	c.editor.startNewLine()
}

// askPermission asks the user for a permission.
func (c *conversation) askPermission(ctx context.Context, w session.InputRequest) error {
	c.printQuestion(w.Permission.Question())
	return c.readAnswer(ctx, w, PermissionPrompt(*w.Permission), func(line string, end bool) (bool, error) {
		decision, ok := ParsePermissionChoice(*w.Permission, line)
		switch {
		case end:
			decision = Refuse
		case !ok:
			return false, nil
		}
		return true, ApplyPermissionChoice(ctx, c.session, *w.Permission, decision)
	})
}
