package terminal

import (
	"context"
	"io"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
)

// A Choice is a person's decision about a permission.
type Choice uint8

const (
	Refuse Choice = iota
	AllowHere
	AllowAlways
	AllowWider // where there is a wider right
)

// Choices is the prompt for a decision.
func Choices(p session.PermissionRequest) string {
	if p.Wider == nil {
		return "y (in this session), a (always in this workspace) or n: "
	}
	return "y (this one, in this session), s (all of " + p.Wider.Call + " that are not destructive, in this session), a (this one, always in this workspace) or n: "
}

// Decision reads a decision. ok is false if the line is none.
func Decision(p session.PermissionRequest, line string) (c Choice, ok bool) {
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

// Decide carries out a person's decision about a permission.
func Decide(ctx context.Context, s session.Session, p session.PermissionRequest, c Choice) error {
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

// plainAgain ends colours that code may have left, with which a question could not be read.
const plainAgain = "\x1b[0m"

// begin puts a question that only a person may answer.
func (c *conversation) begin(question string) {
	if !c.o.Plain {
		_, _ = io.WriteString(c.editor, plainAgain)
	}
	c.printer.note(question)
	c.editor.keys.forget() // what was typed before was not meant for this
	c.editor.freshLine()
}

// decide asks the person for a permission.
func (c *conversation) decide(ctx context.Context, w session.InputRequest) error {
	c.begin(w.Permission.Question())
	return c.readAnswer(ctx, w, Choices(*w.Permission), func(line string, end bool) (bool, error) {
		decision, ok := Decision(*w.Permission, line)
		switch {
		case end:
			decision = Refuse
		case !ok:
			return false, nil
		}
		return true, Decide(ctx, c.session, *w.Permission, decision)
	})
}
