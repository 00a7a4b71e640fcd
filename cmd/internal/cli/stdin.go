package cli

import (
	"bytes"
	"context"
	"errors"
	"os"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// errWaitOver means that the input is no longer wanted.
var errWaitOver = errors.New("cli: the wait is over")

// A stdin passes our standard input to readers in the session, one read at a time and only
// on demand. The session queues what a reader does not consume.
type stdin struct {
	file   *os.File
	normal *term.State // of the terminal that file is; nil when it is none
	wanted chan bool   // one token; true for a secret
	read   chan session.Input
	over   chan timeline.Seq // holds one: the last wait that is over
	asked  bool              // a token is out and not answered
}

// newStdin reads file on demand; nil is an empty one.
func newStdin(file *os.File) *stdin {
	s := &stdin{file: file, wanted: make(chan bool, 1), read: make(chan session.Input, 1), over: make(chan timeline.Seq, 1)}
	if file != nil {
		s.normal, _ = term.GetState(int(file.Fd()))
	}
	go s.pump()
	return s
}

// close ends the pump as soon as its read, if any, returns. It restores the terminal's echo,
// which is off while a secret is read.
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

// once reads once; any error is the end of the file.
func (s *stdin) once(buf []byte, secret bool) session.Input {
	if s.file == nil {
		return session.Input{EOF: true}
	}
	if secret && s.normal != nil {
		line, err := term.ReadPassword(int(s.file.Fd()))
		if err != nil {
			return session.Input{EOF: true}
		}
		return session.Input{Data: append(line, '\n')}
	}
	for {
		n, err := s.file.Read(buf)
		if n > 0 {
			return session.Input{Data: bytes.Clone(buf[:n])}
		}
		if err != nil {
			return session.Input{EOF: true}
		}
	}
}

// ended notes that a wait is over. It is for one goroutine.
func (s *stdin) ended(wait timeline.Seq) {
	select {
	case <-s.over: // an older one
	default:
	}
	s.over <- wait
}

// next returns the next piece of input for a wait. If the wait ends during a read, that
// input goes to the next wait.
func (s *stdin) next(ctx context.Context, w *session.InputRequest) (session.Input, error) {
	if !s.asked {
		s.wanted <- w.Secret
		s.asked = true
	}
	for {
		select {
		case in := <-s.read:
			s.asked = false
			return in, nil
		case over := <-s.over:
			if over >= w.ID {
				return session.Input{}, errWaitOver
			}
		case <-ctx.Done():
			return session.Input{}, ctx.Err()
		}
	}
}
