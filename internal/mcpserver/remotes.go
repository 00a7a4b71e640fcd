package mcpserver

import (
	"context"
	"errors"
	"fmt"
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

// splitRemote splits a session's name into the remote with its slash, and the session's own name.
// prefix is "" for the default remote.
func (s *sessions) splitRemote(name string) (prefix, own string, err error) {
	remote, own, found := strings.Cut(name, backend.RemoteSeparator)
	remotes := s.backend.Remotes()
	if !found || len(remotes) == 0 {
		return "", name, nil
	}
	switch isDefault := remote != "" && remote == remotes[0]; {
	case !isDefault && !slices.Contains(remotes[1:], remote):
		return "", "", fmt.Errorf("session %q: %s", name, remoteNotAllowed(remote, remotes[1:]))
	case own == "":
		return "", "", fmt.Errorf("session %q lacks a name after the remote: use %q", name, name+backend.MainSession)
	case isDefault:
		return "", own, nil
	}
	return remote + backend.RemoteSeparator, own, nil
}

// remoteNotAllowed says that the user does not allow a remote, and which ones they allow.
func remoteNotAllowed(remote string, allowed []string) string {
	if len(allowed) == 0 {
		return "the user allows no other remotes (repl mcp --remotes): use a name without a slash"
	}
	return fmt.Sprintf("%q is not among the remotes that the user allows (repl mcp --remotes): %s", remote, joinNames(allowed, "and", ""))
}

// listRemoteSessions describes the sessions on all remotes of the backend, which it asks
// concurrently. unreached has a line for each remote that does not answer. If none does, that is
// an error.
func (s *sessions) listRemoteSessions(ctx context.Context) (all []session.Info, unreached []string, err error) {
	remotes := s.backend.Remotes()
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
func (s *sessions) sessionsOnSameRemote(ctx context.Context, name string) ([]session.Info, error) {
	remote, _, found := strings.Cut(name, backend.RemoteSeparator)
	if !found {
		remote = s.backend.Remotes()[0]
	}
	return s.sessionsOnRemote(ctx, remote)
}

func (s *sessions) sessionsOnRemote(ctx context.Context, remote string) ([]session.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, listSessionsTimeout)
	defer cancel()
	return s.backend.Sessions(ctx, remote)
}

// remoteErrorLine says in one line why a remote cannot be listed.
func remoteErrorLine(remote string, why error) string {
	line := text.OneLine(timeline.TerminalText(why.Error()))
	if remote != "" && !strings.HasPrefix(line, remote) {
		line = remote + ": " + line
	}
	return text.Shorten(line, maxReasonChars)
}
