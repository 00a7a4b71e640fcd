package event

import (
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/timeline/internal/redact"
)

// RedactBody replaces secrets in all fields of a body. A Text comes in pieces and is left to
// a redact.Redactor.
func RedactBody(s *redact.SecretSet, body Body) Body {
	switch b := body.(type) {
	case Display:
		return redactDisplay(s, b)
	case TurnStarted:
		hidden := []byte(s.Redact(string(b.Input)))
		b.InputBytes += len(hidden) - len(b.Input)
		b.Input = hidden
		return b
	case TurnEnded:
		b.Name, b.Message, b.Prompt = s.Redact(b.Name), s.Redact(b.Message), s.Redact(b.Prompt)
		return b
	case InputRequested:
		b.Prompt, b.Denied = s.Redact(b.Prompt), redactDenied(s, b.Denied)
		return b
	case AccessDenied:
		return redactDenied(s, b)
	case InputLine:
		b.Prompt, b.Text = s.Redact(b.Prompt), s.Redact(b.Text)
		return b
	case Progress:
		b.Message = s.Redact(b.Message)
		return b
	case Preparation:
		b.Message = s.Redact(b.Message)
		return b
	case Notice:
		b.Message = s.Redact(b.Message)
		return b
	case Limit:
		b.Program = s.Redact(b.Program)
		return b
	case WorkerExited:
		b.Reason, b.Message, b.LastLine = s.Redact(b.Reason), s.Redact(b.Message), s.Redact(b.LastLine)
		return b
	}
	return body
}

// redactDisplay replaces secrets in all types that are text. JSON may become invalid only where
// it contained a secret.
func redactDisplay(s *redact.SecretSet, d Display) Display {
	d.Title, d.ID, d.Meta = s.Redact(d.Title), s.Redact(d.ID), []byte(s.Redact(string(d.Meta)))
	data := make(map[string][]byte, len(d.Data))
	for mime, b := range d.Data {
		if utf8.Valid(b) {
			b = []byte(s.Redact(string(b)))
		}
		data[s.Redact(mime)] = b
	}
	d.Data = data
	return WithDigests(d)
}

func redactDenied(s *redact.SecretSet, d AccessDenied) AccessDenied {
	d.Path, d.Host, d.ChildProgram, d.Hint = s.Redact(d.Path), s.Redact(d.Host), s.Redact(d.ChildProgram), s.Redact(d.Hint)
	return d
}

// EndsText reports whether text cannot continue after this event. Events that a caller or a
// hook adds at any time may arrive in the middle of one write of the runtime.
func EndsText(body Body) bool {
	switch body.(type) {
	case Interrupt, Limit, Notice, Progress, InputRequestEnded, AccessDenied, AccessGranted:
		return false
	}
	return true
}
