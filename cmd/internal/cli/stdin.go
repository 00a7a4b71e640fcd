package cli

import (
	"bytes"
	"context"
	"errors"
	"os"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/supervisor"
)

// errTurnOver says that nobody waits for the input any more.
var errTurnOver = errors.New("cli: the turn is over")

// A stdin gives our standard input to whoever asks in the session, one read at a
// time and only when somebody asks. What they do not consume is queued there.
type stdin struct {
	file   *os.File
	normal *term.State // of the terminal that file is; nil when it is none
	wanted chan bool   // one token; true for a secret
	read   chan supervisor.Input
	asked  bool // a token is out and not answered
}

// newStdin reads file on demand; nil is an empty one.
func newStdin(file *os.File) *stdin {
	s := &stdin{file: file, wanted: make(chan bool, 1), read: make(chan supervisor.Input, 1)}
	if file != nil {
		s.normal, _ = term.GetState(int(file.Fd()))
	}
	go s.pump()
	return s
}

// close ends the pump as soon as its read, if any, returns. One that reads a
// secret has the terminal's echo turned off.
func (s *stdin) close() {
	close(s.wanted)
	if s.normal != nil {
		_ = term.Restore(int(s.file.Fd()), s.normal)
	}
}

func (s *stdin) pump() {
	buf := make([]byte, 64<<10)
	for secret := range s.wanted {
		s.read <- s.once(buf, secret)
	}
}

// once reads what there is; any error is the end of the file.
func (s *stdin) once(buf []byte, secret bool) supervisor.Input {
	if s.file == nil {
		return supervisor.Input{EOF: true}
	}
	if secret && s.normal != nil {
		line, err := term.ReadPassword(int(s.file.Fd()))
		if err != nil {
			return supervisor.Input{EOF: true}
		}
		return supervisor.Input{Data: append(line, '\n')}
	}
	for {
		n, err := s.file.Read(buf)
		if n > 0 {
			return supervisor.Input{Data: bytes.Clone(buf[:n])}
		}
		if err != nil {
			return supervisor.Input{EOF: true}
		}
	}
}

// next is the next piece of input for turn. A read that is under way when the
// turn ends is for whoever asks next.
func (s *stdin) next(ctx context.Context, turn *supervisor.Turn, secret bool) (supervisor.Input, error) {
	if !s.asked {
		s.wanted <- secret
		s.asked = true
	}
	select {
	case in := <-s.read:
		s.asked = false
		return in, nil
	case <-turn.Done():
		return supervisor.Input{}, errTurnOver
	case <-ctx.Done():
		return supervisor.Input{}, ctx.Err()
	}
}
