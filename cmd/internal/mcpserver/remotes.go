package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// remoteSeparator is between a place and the name of a session there. No session's own name has it.
	remoteSeparator = "/"

	// listTimeout bounds asking a place of a host for its sessions.
	listTimeout = 10 * time.Second

	// maxReasonChars bounds why a place cannot be asked, in characters.
	maxReasonChars = 300
)

// splitRemote splits a session's name into the place with its slash and its own name. at is "" for the
// usual place.
func (s *sessions) splitRemote(name string) (at, own string, err error) {
	place, own, found := strings.Cut(name, remoteSeparator)
	if !found || s.backend == nil {
		return "", name, nil
	}
	places := s.backend.Remotes()
	switch usual := place != "" && place == places[0]; {
	case !usual && !slices.Contains(places[1:], place):
		return "", "", fmt.Errorf("session %q: %s", name, remoteNotAllowed(place, places[1:]))
	case own == "":
		return "", "", fmt.Errorf("session %q has no name behind its place: use %q", name, name+MainSession)
	case usual:
		return "", own, nil
	}
	return place + remoteSeparator, own, nil
}

// remoteNotAllowed says that a place is not among those that the user allows.
func remoteNotAllowed(place string, allowed []string) string {
	if len(allowed) == 0 {
		return "the user allows no other places (repl mcp --places): use a name without a slash"
	}
	return fmt.Sprintf("%q is not among the places that the user allows (repl mcp --places): %s", place, joinNames(allowed, "and", ""))
}

// describeRemotes describes the sessions at all places of the host, which it asks at the same time.
// unreached has a line for each place that cannot be asked. If none can, that is an error.
func (s *sessions) describeRemotes(ctx context.Context) (all []session.Info, unreached []string, err error) {
	places := s.backend.Remotes()
	of, failed := make([][]session.Info, len(places)), make([]error, len(places))
	var asking sync.WaitGroup
	for i, place := range places {
		asking.Go(func() { of[i], failed[i] = s.sessionsOnRemote(ctx, place) })
	}
	asking.Wait()
	for i, place := range places {
		if failed[i] != nil {
			unreached = append(unreached, remoteErrorLine(place, failed[i]))
		}
	}
	if len(unreached) == len(places) {
		return nil, nil, errors.Join(failed...)
	}
	return slices.Concat(of...), unreached, nil
}

// sessionsOnSameRemote describes the sessions at the place of a session.
func (s *sessions) sessionsOnSameRemote(ctx context.Context, name string) ([]session.Info, error) {
	place, _, found := strings.Cut(name, remoteSeparator)
	if !found {
		place = s.backend.Remotes()[0]
	}
	return s.sessionsOnRemote(ctx, place)
}

func (s *sessions) sessionsOnRemote(ctx context.Context, place string) ([]session.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return s.backend.Sessions(ctx, place)
}

// remoteErrorLine says in one line why a place cannot be asked.
func remoteErrorLine(place string, why error) string {
	text := strings.Join(strings.Fields(timeline.TerminalText(why.Error())), " ")
	if place != "" && !strings.HasPrefix(text, place) {
		text = place + ": " + text
	}
	return firstRunes(text, maxReasonChars)
}
