package supervisor

import (
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// Rename gives an open session another name. From then on it is found, listed and recovered as if
// it had just been opened. Its worker, timeline and directory stay. The error is session.ErrExists,
// session.ErrClosed or an error of kind session.KindName.
func (v *Supervisor) Rename(s *Session, name string) error {
	if !session.IsValidName(name) {
		return invalidNameError(name)
	}
	if err := v.moveSession(s, name); err != nil {
		return err
	}
	s.mu.Lock()
	spec := s.spec
	s.mu.Unlock()
	info := lockFileInfo{Name: name, Dir: spec.Dir, Spec: spec.Name}
	if v.o.RecoverCommand != "" {
		s.updateLockInfo(info)
	}
	crashed := v.claimCrashed(info)
	s.mu.Lock()
	defer s.unlock()
	s.openedAt, s.crashedBefore = time.Now(), crashed
	s.m.grantHint = v.o.grantHintFor(name, &spec)
	if crashed != nil {
		s.m.recordNotice("%s", crashed.noticeText(v.o.RecoverCommand))
	}
	return nil
}

// moveSession moves a session to another name in the supervisor's table.
func (v *Supervisor) moveSession(s *Session, name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.sessions[s.Name()] != s {
		return session.ErrClosed
	}
	if _, ok := v.sessions[name]; ok {
		return existsError(name)
	}
	delete(v.sessions, s.Name())
	s.name.Store(&name)
	v.sessions[name] = s
	return nil
}

func invalidNameError(name string) error {
	return session.Errorf(session.KindName, "%q is not a session name: use 1 to 64 letters, digits, dots, dashes and underscores", name)
}

func existsError(name string) error {
	return session.Errorf(session.KindExists, "a session named %q is open", name)
}
