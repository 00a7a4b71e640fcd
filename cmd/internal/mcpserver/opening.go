package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
)

// openAhead opens the main session, so that the first call finds it ready.
func (s *sessions) openAhead() {
	if s.main != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed && s.views[MainSession] == nil { // a call may have been faster
			s.openLocked(MainSession, s.main, s.dir, nil)
		}
	}
}

// openingLocked returns how many sessions are not open yet.
func (s *sessions) openingLocked() (n int) {
	for _, v := range s.views {
		if _, ok := v.isOpen(); !ok {
			n++
		}
	}
	return n
}

// openLocked starts a session without waiting for it. It replaces an unused one of that name.
func (s *sessions) openLocked(name, lang, dir string, codex *codexState) *view {
	v, unused := newView(name, lang, dir, &s.mu), s.views[name]
	v.codex = codex
	s.views[name] = v
	ctx, cancel := context.WithCancel(s.ctx)
	v.giveUp = cancel
	s.opening.Go(func() {
		defer cancel()
		if unused != nil {
			unused.abandon(s.logger)
		}
		if s.host != nil {
			v.session, v.err = s.openAt(ctx, v)
		} else {
			v.session, v.err = s.open(ctx, v, lang)
		}
		if v.err != nil {
			level := slog.LevelError
			if ctx.Err() != nil { // its caller has left, or wants another
				level = slog.LevelInfo
			}
			s.logger.Log(s.ctx, level, "a session did not open", "session", name, "language", lang, "error", v.err)
			s.forget(v) // the next call tries again
		} else {
			s.logger.Info("a session is open", "session", name, "language", lang)
		}
		close(v.opened)
	})
	return v
}

func (s *sessions) open(ctx context.Context, v *view, lang string) (*Opened, error) {
	spec := s.specs[lang](cmp.Or(v.dir, s.here)) // by its name: a directory may be removed and made anew
	bound := s.boundOf(v.codex, v.dir)
	spec.Sandbox = bound.narrow(spec.Sandbox)
	opened, err := s.supervisor.Open(ctx, s.prefix+v.name, spec)
	if errors.Is(err, session.ErrLimit) && s.makeRoom() {
		opened, err = s.supervisor.Open(ctx, s.prefix+v.name, spec)
	}
	if err != nil {
		return nil, calledBy(v.name, err)
	}
	if err := s.prepared(ctx, v, opened); err != nil {
		_ = opened.Close(context.Background())
		return nil, err
	}
	v.setNote(s.newWord(spec.Notice, bound))
	o := own(opened, s.author)
	o.Sandbox = spec.Sandbox
	return o, nil
}

// newWord tells the model, once, about a new session: which packages it has, that its runtime is
// not the one that was asked for, and that the client bounds its sandbox.
func (s *sessions) newWord(notice string, b bound) string {
	word := b.words
	if notice != "" {
		word = append(word, notice)
	}
	if len(s.with) > 0 {
		word = append(word, s.withWord())
	}
	return strings.Join(word, "; ")
}

// withWord tells the model, once in each session, which packages it can import.
func (s *sessions) withWord() string {
	return list(s.with, "and", "") + " can be used in this session"
}

// calledBy returns why a session was not opened, with its name as the caller knows it.
func calledBy(name string, err error) error {
	said, ok := errors.AsType[*session.Error](err)
	switch {
	case ok && (said.Kind == session.KindStart || said.Kind == session.KindSpec) && said.Cause != nil:
		return &session.Error{Kind: said.Kind, Message: fmt.Sprintf("session %q did not start: %v", name, said.Cause), Cause: said.Cause}
	case ok && said.Kind == session.KindName:
		return &session.Error{Kind: said.Kind, Message: fmt.Sprintf("%q is not a session name: use 1 to 64 letters, digits, dots, dashes and underscores", name)}
	}
	return err
}

// openAt opens the session of a view at the host, and goes on reading where this
// client stopped when it was here before.
func (s *sessions) openAt(ctx context.Context, v *view) (*Opened, error) {
	bound := s.boundOf(v.codex, v.dir)
	opened, err := s.host.Open(ctx, v.name, v.lang, cmp.Or(v.dir, s.here), bound.narrow, v.preparing.report)
	if errors.Is(err, session.ErrClosed) {
		return nil, s.notThere(ctx, v.name)
	}
	if err != nil {
		return nil, err
	}
	info := opened.Now
	var word []string
	works := v.dir
	if opened.Made {
		if v.name != MainSession && v.name != v.lang {
			word = append(word, fmt.Sprintf("new session %q", v.name))
		}
		if new := s.newWord(info.Notice, bound); new != "" {
			word = append(word, new)
		}
		if works != s.dir { // a place has directories of its own
			works = info.Dir
		}
	} else {
		known := opened.Seen
		if known == 0 {
			word = append(word, fmt.Sprintf("this session was there before: %d turns were run in it", info.Turn))
			known = info.LastSeq
		} else {
			word = append(word, "back in the session as it was left")
		}
		if len(opened.Lacks) > 0 {
			word = append(word, fmt.Sprintf("it was made without %s, which a new session has", list(opened.Lacks, "and", "")))
		}
		v.setCursor(known)
		s.mu.Lock()
		v.lang = info.Language
		s.mu.Unlock()
		works = info.Dir
	}
	if works != "" && works != s.dir && works != s.here {
		word = append(word, "it works in "+works)
	}
	v.setNote(strings.Join(word, "; "))
	return opened, nil
}

// notThere returns the error about a missing session of the host when no language was named.
func (s *sessions) notThere(ctx context.Context, name string) error {
	there := "there is none yet: repl makes one"
	if all, err := s.besides(ctx, name); err == nil && len(all) > 0 {
		var names []string
		for _, one := range all {
			names = append(names, one.Name)
		}
		there = "there is " + list(names, "and", "")
	}
	if len(s.languages) > 1 {
		there += "; to make it, set lang to " + list(s.languages, "or", "")
	}
	return fmt.Errorf("unknown session %q: %s", name, there)
}

// makeRoom closes one session without a worker, which has nothing to lose.
func (s *sessions) makeRoom() bool {
	for _, v := range s.all() {
		opened, ok := v.isOpen()
		if ok && opened.info(s.ctx).State == session.StateEnded {
			s.forget(v)
			return opened.Leave(context.Background()) == nil
		}
	}
	return false
}
