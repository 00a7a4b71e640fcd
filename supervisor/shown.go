package supervisor

import (
	"context"
	"slices"

	"github.com/turnstone-repl/turnstone/session"
)

// Shown implements session.Session.
func (s *Session) Shown(context.Context) (session.Shown, error) {
	shown := session.Shown{Places: []session.ShownPlace{}, Withheld: []string{}}
	s.mu.Lock()
	w := s.worker
	s.mu.Unlock()
	if w == nil || w.plan == nil {
		return shown, nil
	}
	home, places := w.plan.Home()
	shown.Home = home
	for _, place := range places[:min(len(places), session.MaxShown)] {
		shown.Places = append(shown.Places, session.ShownPlace{Path: string(place.Path), Why: string(place.Why)})
	}
	names := slices.Sorted(slices.Values(w.withheld))
	shown.Withheld = append(shown.Withheld, names[:min(len(names), session.MaxShown)]...)
	shown.More, shown.MoreWithheld = len(places)-len(shown.Places), len(names)-len(shown.Withheld)
	return shown, nil
}
