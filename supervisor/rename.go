package supervisor

import (
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// Rename gives an open session another name. From then on it is found, listed and recovered as if
// it had just been opened. Its worker, timeline and directory stay. The error is session.ErrExists,
// session.ErrClosed or an error of kind session.KindName.
func (sup *Supervisor) Rename(s *Session, name string) error {
	if !session.IsValidName(name) {
		return invalidNameError(name)
	}
	if err := sup.moveSession(s, name); err != nil {
		return err
	}
	s.mu.Lock()
	spec := s.spec
	s.mu.Unlock()
	info := lockFileInfo{Name: name, Dir: spec.Dir, Spec: spec.Name, Format: crashedFormat}
	if sup.o.RecoverCommand != "" {
		s.updateLockInfo(info)
	}
	crashed := sup.claimCrashed(info)
	s.mu.Lock()
	defer s.unlock()
	s.openedAt, s.crashedBefore = time.Now(), crashed
	s.m.grantHint = sup.o.grantHintFor(name, &spec)
	if crashed != nil {
		s.m.recordNotice("%s", crashed.noticeText(sup.o.RecoverCommand))
	}
	return nil
}

// moveSession moves a session to another name in the supervisor's table.
func (sup *Supervisor) moveSession(s *Session, name string) error {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	if sup.sessions[s.Name()] != s {
		return session.ErrClosed
	}
	if _, ok := sup.sessions[name]; ok {
		return existsError(name)
	}
	delete(sup.sessions, s.Name())
	s.name.Store(&name)
	sup.sessions[name] = s
	return nil
}
