package backend

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// openTimeout bounds opening a session, including starting the daemon but not preparing the
	// session.
	openTimeout = 30 * time.Second

	// markTimeout bounds saving a read cursor, which says how far a client has read.
	markTimeout = 2 * time.Second

	// markWaitTimeout bounds how long an answer waits until the cursor is saved. Unless the daemon
	// is stuck, it is saved before the answer: a client that is killed right after an answer does
	// not get it again.
	markWaitTimeout = 100 * time.Millisecond

	// finalMarkTimeout bounds the wait for the cursor when the client leaves.
	finalMarkTimeout = 200 * time.Millisecond
)

// A SingleDaemon keeps the sessions of an MCP server in a daemon, so that a restarted server finds
// them again. It is the part of a DaemonSet for one daemon.
type SingleDaemon struct {
	Client   *client.Client
	BaseName string   // the client's main session; the names of its other sessions begin with this name
	Packages []string // required in its sessions
	Choices  DaemonChoices
	Close    func() // closes the connection and everything that supports it
}

// DaemonChoices holds the choices of the user for the sessions of a SingleDaemon, and facts that
// only a command knows.
type DaemonChoices interface {
	// IsLanguage reports whether a name is the name of a language.
	IsLanguage(name string) bool

	// NewParams returns the request for a session, without its name and packages, and the sandbox
	// in it.
	NewParams(lang, dir string, narrow func(*sandbox.Policy) *sandbox.Policy) (protocol.CreateParams, *sandbox.Policy, error)

	// CheckExisting returns an error if an existing session does not fit these choices.
	CheckExisting(policy *sandbox.Policy, now session.Info) error

	// MissingPackages returns the packages that the client requires and an existing session lacks.
	MissingPackages(has []string) ([]string, error)

	// AddCommands adds the commands for a user and, if the daemon is on another machine, the
	// replacements of its files.
	AddCommands(h *SessionHandle, name string, now session.Info)
}

// Open is Backend.Open for a session of this daemon.
func (b *SingleDaemon) Open(ctx context.Context, name, lang, dir string, narrow func(*sandbox.Policy) *sandbox.Policy, report func(line string)) (*SessionHandle, error) {
	switch {
	case name == MainSession:
		name = b.BaseName
	case b.Choices.IsLanguage(name): // the default session of the language
		name = b.BaseName + "-" + name
	}
	p, policy, err := b.Choices.NewParams(lang, dir, narrow)
	if err != nil {
		return nil, err
	}
	p.Name = name
	if lang != "" {
		p.Packages = b.Packages
	}
	bounded, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	opened, now, made, err := b.Client.OpenSession(bounded, p)
	if err == nil && !made {
		err = b.Choices.CheckExisting(policy, now)
	}
	if err != nil {
		return nil, err
	}
	preparing := now.State == session.StatePreparing
	err = session.FollowPreparation(ctx, opened, now, func(p timeline.Preparation) { report(p.Text()) })
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	s, read, err := opened.ReadAs(ctx, b.BaseName) // the session says why its preparation failed
	if err == nil && preparing {
		now, err = s.Info(ctx)
	}
	if err != nil {
		if len(now.Packages) > 0 && session.KindOf(err) == session.KindStart {
			err = &PrepareError{Err: err}
		}
		return nil, err
	}
	o := b.openedSession(s, read, now)
	o.IsNew, o.Sandbox = made, policy
	if !made && len(b.Packages) > 0 {
		o.MissingPackages, err = b.Choices.MissingPackages(now.Packages)
	}
	return o, err
}

// Sessions is Backend.Sessions for this daemon.
func (b *SingleDaemon) Sessions(ctx context.Context) ([]session.Info, error) {
	all, err := b.Client.ListSessions(ctx)
	for i, s := range all {
		own, ok := strings.CutPrefix(s.Name, b.BaseName)
		own = strings.TrimPrefix(own, "-")
		switch {
		case ok && own == "":
			all[i].Name = MainSession
		case ok && b.Choices.IsLanguage(own):
			all[i].Name = own
		}
	}
	return all, err
}

// openedSession wraps a session of the daemon for the MCP server, which reads it from read on under
// its own name.
func (b *SingleDaemon) openedSession(s *client.Session, read timeline.Seq, now session.Info) *SessionHandle {
	mark := &readCursorSaver{save: func(seq timeline.Seq) {
		ctx, cancel := context.WithTimeout(context.Background(), markTimeout)
		defer cancel()
		_, _ = s.SaveReadCursor(ctx, seq)
	}}
	opened := &SessionHandle{
		Session:     s,
		InitialInfo: now,
		OutputPath:  func() string { return now.OutputPath },
		Leave: func(context.Context) error { // the session stays for later clients
			mark.waitSaved(finalMarkTimeout)
			return nil
		},
		LastSeen: read,
		SaveCursor: func(seq timeline.Seq) {
			mark.saveAt(seq)
			mark.waitSaved(markWaitTimeout)
		},
	}
	b.Choices.AddCommands(opened, s.Name(), now)
	if b.Client.IsRemote() { // every round trip costs time there: the next turn carries the cursor
		opened.Link, opened.SaveCursor = b.Client, s.NoteReadCursor
		opened.Leave = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, finalMarkTimeout)
			defer cancel()
			_ = s.FlushReadCursor(ctx)
			return nil
		}
	}
	return opened
}

// A readCursorSaver saves in the background how far a client has read. An answer does not wait for
// a daemon that is stuck, and of several moves only the last must be saved.
type readCursorSaver struct {
	save func(timeline.Seq)

	mu    sync.Mutex
	seq   timeline.Seq  // guarded by mu: the last position
	saved chan struct{} // guarded by mu: closed when the position is saved; nil if it has never moved
	busy  bool          // guarded by mu
}

func (s *readCursorSaver) saveAt(seq timeline.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq = seq
	if s.busy {
		return
	}
	s.busy, s.saved = true, make(chan struct{})
	go func() {
		for sent := timeline.Seq(0); ; {
			s.mu.Lock()
			next := s.seq
			if next == sent {
				s.busy = false
				close(s.saved)
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			s.save(next)
			sent = next
		}
	}()
}

// waitSaved waits until the last position is saved, at most for limit.
func (s *readCursorSaver) waitSaved(limit time.Duration) {
	s.mu.Lock()
	moved := s.saved
	s.mu.Unlock()
	if moved == nil {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-moved:
	case <-timer.C:
	}
}
