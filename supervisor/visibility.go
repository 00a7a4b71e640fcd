package supervisor

import (
	"context"
	"slices"

	"github.com/turnstone-repl/turnstone/session"
)

// Visibility implements session.Session.
func (s *Session) Visibility(context.Context) (session.Visibility, error) {
	shown := session.Visibility{Paths: []session.VisiblePath{}, WithheldVariables: []string{}}
	s.mu.Lock()
	w := s.worker
	s.mu.Unlock()
	if w == nil || w.plan == nil {
		return shown, nil
	}
	home, mounts := w.plan.Home()
	shown.Home = home
	for _, mount := range mounts[:min(len(mounts), session.MaxVisiblePaths)] {
		shown.Paths = append(shown.Paths, session.VisiblePath{Path: string(mount.Path), Reason: string(mount.Reason)})
	}
	names := slices.Sorted(slices.Values(w.withheldVariables))
	shown.WithheldVariables = append(shown.WithheldVariables, names[:min(len(names), session.MaxVisiblePaths)]...)
	shown.MorePaths, shown.MoreWithheld = len(mounts)-len(shown.Paths), len(names)-len(shown.WithheldVariables)
	return shown, nil
}
