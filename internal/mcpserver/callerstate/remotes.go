package callerstate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// listSessionsTimeout bounds listing the sessions on one remote of a backend.
	listSessionsTimeout = 10 * time.Second

	// maxReasonChars bounds the reason why a remote cannot be listed.
	maxReasonChars = 300
)

// listRemoteSessions describes the sessions on all remotes of the backend, which it asks
// concurrently. unreached has a line for each remote that does not answer. If none does, that is
// an error.
func (s *SessionSet) listRemoteSessions(ctx context.Context) (all []session.Info, unreached []string, err error) {
	remotes := s.config.Backend.Remotes()
	found, failed := make([][]session.Info, len(remotes)), make([]error, len(remotes))
	var asking sync.WaitGroup
	for i, remote := range remotes {
		asking.Go(func() { found[i], failed[i] = s.sessionsOnRemote(ctx, remote) })
	}
	asking.Wait()
	for i, remote := range remotes {
		if failed[i] != nil {
			unreached = append(unreached, remoteErrorLine(remote, failed[i]))
		}
	}
	if len(unreached) == len(remotes) {
		return nil, nil, errors.Join(failed...)
	}
	return slices.Concat(found...), unreached, nil
}

// sessionsOnSameRemote describes the sessions on the remote of a session.
func (s *SessionSet) sessionsOnSameRemote(ctx context.Context, name string) ([]session.Info, error) {
	remote, _, found := strings.Cut(name, backend.RemoteSeparator)
	if !found {
		remote = s.config.Backend.Remotes()[0]
	}
	return s.sessionsOnRemote(ctx, remote)
}

func (s *SessionSet) sessionsOnRemote(ctx context.Context, remote string) ([]session.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, listSessionsTimeout)
	defer cancel()
	return s.config.Backend.Sessions(ctx, remote)
}

// remoteErrorLine says in one line why a remote cannot be listed.
func remoteErrorLine(remote string, why error) string {
	line := text.OneLine(timeline.TerminalText(why.Error()))
	if remote != "" && !strings.HasPrefix(line, remote) {
		line = remote + ": " + line
	}
	return text.Shorten(line, maxReasonChars)
}
