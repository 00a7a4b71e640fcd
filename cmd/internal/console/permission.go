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
	AllowFile                    // only the file, in this session, if that is less than AllowHere
)

// PermissionPrompt returns the prompt for a decision.
func PermissionPrompt(p session.PermissionRequest) string {
	if p.Wider != nil {
		return "y (this one, in this session), s (all of " + p.Wider.Call + " that are not destructive, in this session), a (this one, always in this workspace) or n: "
	}
	file := map[bool]string{true: "f (only this file, in this session), "}[p.FileGrant() != nil]
	return "y (in this session), " + file + "a (always in this workspace) or n: "
}

// ParsePermissionChoice reads a decision. ok is false if the line is not a valid choice.
func ParsePermissionChoice(p session.PermissionRequest, line string) (c PermissionChoice, ok bool) {
	switch word := strings.ToLower(strings.TrimSpace(line)); {
	case word == "y" || word == "yes":
		return AllowHere, true
	case word == "a" || word == "always":
		return AllowAlways, true
	case (word == "s" || word == "server") && p.Wider != nil:
		return AllowWider, true
	case (word == "f" || word == "file") && p.FileGrant() != nil:
		return AllowFile, true
	default:
		return Refuse, word == "n" || word == "no"
	}
}

// ApplyPermissionChoice carries out the user's decision about a permission.
func ApplyPermissionChoice(ctx context.Context, s session.Session, p session.PermissionRequest, c PermissionChoice) error {
	switch file := p.FileGrant(); {
	case c == AllowAlways:
		p.Grant.Always = true
		return s.Allow(ctx, p.Grant)
	case c == AllowWider && p.Wider != nil:
		return s.Allow(ctx, *p.Wider)
	case c == AllowFile && file != nil:
		return s.Allow(ctx, *file)
	default:
		return s.AnswerPermission(ctx, p.ID, c == AllowHere)
	}
}

// printQuestion prints a question that only the user may answer.
func (c *conversation) printQuestion(question string) {
	if !c.options.Plain {
		_, _ = io.WriteString(c.editor, "\x1b[0m") // colours of code could make a question unreadable
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
