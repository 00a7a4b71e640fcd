package supervisor

import (
	"context"

	"github.com/turnstone-repl/turnstone/session"
)

// Type implements session.Session.
func (s *Session) Type(context.Context, session.Keys) (uint64, error) {
	return 0, session.ErrUnsupported
}

// Screen implements session.Session.
func (s *Session) Screen(context.Context) (session.Screen, error) {
	return session.Screen{}, session.ErrUnsupported
}
