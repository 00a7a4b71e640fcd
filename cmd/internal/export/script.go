package export

import (
	"fmt"
	"strings"
)

// A script has the inputs that succeeded, in order. The others are comments, so that a reader
// sees them and they are not run.
type script struct {
	out     *errWriter
	session Session
}

func (s *script) begin() {
	l := s.session.Language
	runtime := strings.TrimSpace(l.Display + " " + s.session.Runtime)
	s.comment(fmt.Sprintf("%s: what was run in a session of repl, %s.", s.session.Name, runtime))
	s.comment("Inputs that did not succeed are comments.")
}

// comment writes lines as comments.
func (s *script) comment(text string) {
	for line := range strings.Lines(text) {
		s.out.print(strings.TrimRight(s.session.Language.Comment+" "+strings.TrimRight(line, "\r\n"), " ") + "\n")
	}
}

func (s *script) note(text string) {
	s.out.print("\n")
	s.comment(text)
}

func (s *script) turn(t *turn) {
	if t.number == 0 {
		return
	}
	s.out.print("\n")
	input := strings.TrimRight(t.input, "\r\n")
	if why := t.failure(); why != "" {
		s.comment(t.title() + " " + why)
		s.comment(input)
		return
	}
	s.comment(t.title())
	for _, line := range t.asked() {
		s.comment(line)
	}
	s.out.print(input + "\n")
}

func (s *script) end() {}
