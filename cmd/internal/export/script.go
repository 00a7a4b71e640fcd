package export

import (
	"fmt"
	"strings"
)

// A scriptWriter writes the inputs that succeeded, in order. The others become comments, so that
// they are visible but not run.
type scriptWriter struct {
	out     *errWriter
	session SessionFacts
}

func (s *scriptWriter) beginDocument() {
	l := s.session.Language
	runtime := strings.TrimSpace(l.Display + " " + s.session.Runtime)
	s.writeComment(fmt.Sprintf("%s: inputs of a repl session, %s.", s.session.Name, runtime))
	s.writeComment("Inputs that did not succeed are comments.")
}

// writeComment writes lines as comments.
func (s *scriptWriter) writeComment(text string) {
	for line := range strings.Lines(text) {
		s.out.print(strings.TrimRight(s.session.Language.Comment+" "+strings.TrimRight(line, "\r\n"), " ") + "\n")
	}
}

func (s *scriptWriter) writeNote(text string) {
	s.out.print("\n")
	s.writeComment(text)
}

func (s *scriptWriter) writeTurn(t *exportedTurn) {
	if t.number == 0 {
		return
	}
	s.out.print("\n")
	input := strings.TrimRight(t.input, "\r\n")
	if why := t.failureNote(); why != "" {
		s.writeComment(t.turnTitle() + " " + why)
		s.writeComment(input)
		return
	}
	s.writeComment(t.turnTitle())
	for _, line := range t.answerLines() {
		s.writeComment(line)
	}
	s.out.print(input + "\n")
}

func (s *scriptWriter) endDocument() {}
