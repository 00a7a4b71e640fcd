package run

import (
	"bytes"
	"context"
	"errors"
	"os"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// errRequestOver means that the input is no longer wanted.
var errRequestOver = errors.New("cli: the input request is over")

// A stdinReader passes our standard input to readers in the session, one read at a time and only on
// demand. The session queues what a reader does not consume.
type stdinReader struct {
	file       *os.File
	savedState *term.State // of the terminal, if file is one; nil otherwise
	requests   chan bool   // one token; true requests a secret
	inputs     chan session.Input
	lastEnded  chan timeline.Seq // holds one: the last input request that is over
	pending    bool              // a token is out and not answered
}

// newStdinReader returns a reader that reads file on demand; nil is an empty file.
func newStdinReader(file *os.File) *stdinReader {
	s := &stdinReader{file: file, requests: make(chan bool, 1), inputs: make(chan session.Input, 1), lastEnded: make(chan timeline.Seq, 1)}
	if file != nil {
		s.savedState, _ = term.GetState(int(file.Fd()))
	}
	go s.pumpReads()
	return s
}

// close ends the goroutine as soon as its read, if any, returns. It restores the terminal's echo,
// which is off while a secret is read.
func (s *stdinReader) close() {
	close(s.requests)
	if s.savedState != nil {
		_ = term.Restore(int(s.file.Fd()), s.savedState)
	}
}

func (s *stdinReader) pumpReads() {
	buf := make([]byte, 64<<10)
	for secret := range s.requests {
		s.inputs <- s.readOnce(buf, secret)
	}
}

// readOnce reads once; any error is the end of the file.
func (s *stdinReader) readOnce(buf []byte, secret bool) session.Input {
	if s.file == nil {
		return session.Input{EOF: true}
	}
	if secret && s.savedState != nil {
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

// endRequest notes that an input request is over. Only one goroutine may call it.
func (s *stdinReader) endRequest(wait timeline.Seq) {
	select {
	case <-s.lastEnded: // an older one
	default:
	}
	s.lastEnded <- wait
}

// next returns the next piece of input for an input request. If the request ends during a read, the
// next request gets that input.
func (s *stdinReader) next(ctx context.Context, w *session.InputRequest) (session.Input, error) {
	if !s.pending {
		s.requests <- w.Secret
		s.pending = true
	}
	for {
		select {
		case in := <-s.inputs:
			s.pending = false
			return in, nil
		case ended := <-s.lastEnded:
			if ended >= w.ID {
				return session.Input{}, errRequestOver
			}
		case <-ctx.Done():
			return session.Input{}, ctx.Err()
		}
	}
}
