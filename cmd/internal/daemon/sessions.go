package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// An openSession is an open session.
type openSession struct {
	name, language string
	packages       []string      // the packages that its creator asked for
	idleTimeout    time.Duration // closed after this time without use; 0 means never
	session        *supervisor.Session
	progress       *progressReporter // nil when no client wants progress of its preparation

	startLock   chan struct{} // holds one token, for the client that starts a turn
	lastStarter turnStarter   // guarded by Daemon.mu

	mu          sync.Mutex
	readCursors map[string]timeline.Seq // guarded by mu; how far each reader has read
	readers     map[string]*clientState // guarded by mu; the last client that read under a name; it may have left
	lastUse     time.Time               // guarded by mu; when a client last used it
	idleTimer   *time.Timer             // guarded by mu; checks whether it is unused; nil when it may stay unused
	isClosing   bool                    // guarded by mu; it was unused for too long and is being closed
}

const (
	// maxReaders bounds the readers that a session remembers, and the names under which one
	// client may read it.
	maxReaders = 64
)

// saveReadCursor stores how far a reader has read, unless seq is 0, and returns the stored mark. With
// too many readers, it forgets the one that is furthest behind.
func (e *openSession) saveReadCursor(reader string, seq timeline.Seq) timeline.Seq {
	e.mu.Lock()
	defer e.mu.Unlock()
	if seq == 0 || seq <= e.readCursors[reader] {
		return e.readCursors[reader]
	}
	if e.readCursors == nil {
		e.readCursors = make(map[string]timeline.Seq)
	}
	e.readCursors[reader] = seq
	if len(e.readCursors) > maxReaders {
		oldest := reader
		for r, s := range e.readCursors {
			if s < e.readCursors[oldest] {
				oldest = r
			}
		}
		delete(e.readCursors, oldest)
	}
	return seq
}

// readerNameTimeout is how long a client waits for a reader's name that another client holds.
// A client that restarts may connect before the daemon sees the end of its old connection.
const readerNameTimeout = time.Second

// reserveReader reserves a reader's name for a client, and returns it. If another
// one holds the name, it returns the name with the least free number.
func (e *openSession) reserveReader(ctx context.Context, name string, c *clientState) (string, error) {
	if has := e.readerNameOf(c, name); has != "" {
		return has, nil
	}
	patience, stop := context.WithTimeout(ctx, readerNameTimeout)
	defer stop()
	own := name
	for n := 2; ; n++ {
		holder := e.claimReader(own, c)
		if holder == c {
			return own, nil
		}
		select {
		case <-holder.disconnected():
			n--
			continue // the name is free, unless another client was faster
		case <-patience.Done():
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		own = fmt.Sprintf("%s#%d", name, n)
	}
}

// hasReader reports whether a connected client reads the session under a name of its own. Such an
// agent may come back to its work after a long time.
func (e *openSession) hasReader() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.readers {
		if c.isConnected() {
			return true
		}
	}
	return false
}

// readerNameOf returns the name that a client got when it asked for this name before.
func (e *openSession) readerNameOf(c *clientState, name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for has, holder := range e.readers {
		if holder == c && (has == name || strings.HasPrefix(has, name+"#")) {
			return has
		}
	}
	return ""
}

// checkReaderLimit returns an error if a client may not read under one more name.
func (e *openSession) checkReaderLimit(name string, c *clientState) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := 0
	for has, holder := range e.readers {
		if holder == c && has != name {
			names++
		}
	}
	if names >= maxReaders {
		return session.Errorf(session.KindLimit, "%d readers are the most of one client in a session", maxReaders)
	}
	return nil
}

// claimReader returns the connected client that reads under a name. If there is none, it is c from now
// on. The names of a client that may come back are kept for it while there is room.
func (e *openSession) claimReader(name string, c *clientState) *clientState {
	e.mu.Lock()
	defer e.mu.Unlock()
	if holder := e.readers[name]; holder != nil && holder.isConnected() {
		return holder
	}
	full := len(e.readers) >= maxReaders
	maps.DeleteFunc(e.readers, func(_ string, holder *clientState) bool { return !holder.isConnected() && (full || holder.id == "") })
	if e.readers == nil {
		e.readers = make(map[string]*clientState)
	}
	e.readers[name] = c
	return c
}

// createSession opens a session. It returns at once when something has to be prepared first. call is the
// context of the call, which ends when it is answered.
func (d *Daemon) createSession(ctx, call context.Context, r *rpcserver.Request, p client.CreateParams) (*openSession, error) {
	if p.Name != "" && !session.IsValidName(p.Name) {
		return nil, rpcserver.InvalidParams("name %q: use up to 64 letters, digits, dots, underscores and hyphens", p.Name)
	}
	if p.Dir != "" && !filepath.IsAbs(p.Dir) {
		return nil, rpcserver.InvalidParams("dir %q: give an absolute path, the daemon works elsewhere", p.Dir)
	}
	for name, value := range p.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return nil, rpcserver.InvalidParams("env: %q cannot be a variable of an environment", name)
		}
	}
	if p.Language == "" {
		p.Language = d.options.Languages()[0]
	}
	switch {
	case len(p.Command) > 0:
		if d.options.HasLanguage(p.Language) {
			return nil, rpcserver.InvalidParams("command: %s is a language of this daemon, which has its own", p.Language)
		}
		if !filepath.IsAbs(p.Command[0]) {
			return nil, rpcserver.InvalidParams("command %q: give an absolute path, the daemon works elsewhere", p.Command[0])
		}
	case !d.options.HasLanguage(p.Language):
		return nil, session.Errorf(client.KindUnknownLanguage, "there is no language %q: there is %s", p.Language, strings.Join(d.options.Languages(), ", "))
	}
	if err := d.checkAdmission(); err != nil {
		return nil, err
	}
	spec, err := d.options.FindSpec(p)
	if err == nil {
		err = spec.Err
	}
	if err != nil && session.KindOf(err) == "" {
		kind := session.KindSpec
		if _, missing := errors.AsType[*workers.MissingError](err); missing {
			kind = session.KindStart
		}
		err = session.Errorf(kind, "%v", err)
	}
	if err != nil {
		return nil, err
	}
	var in *progressReporter
	if token := progressToken(r, p); token != nil && len(spec.Preparations) > 0 {
		if in, err = d.newProgressReporter(r.Conn, token); err != nil {
			return nil, err
		}
	}
	type opened struct {
		entry *openSession
		err   error
	}
	done := make(chan opened, 1)
	d.wg.Go(func() {
		e, err := d.registerSession(p, spec, in)
		if err != nil && in != nil {
			in.releaseToken()
		}
		done <- opened{e, err}
	})
	select {
	case o := <-done:
		if o.err != nil {
			return nil, o.err
		}
		if in != nil { // the client must get the answer, which says preparing, before any frame
			d.wg.Go(func() {
				<-call.Done()
				in.reportUntilPrepared(o.entry.session)
			})
		}
		if ctx.Err() == nil && !r.Commit() {
			return o.entry, nil
		}
		d.closeAbandoned(o.entry, p)
	case <-ctx.Done():
		d.wg.Go(func() {
			if o := <-done; o.err == nil {
				d.closeAbandoned(o.entry, p)
				if in != nil {
					in.reportUntilPrepared(o.entry.session)
				}
			}
		})
	}
	return nil, ctx.Err()
}

// closeAbandoned closes a session whose name nobody learns: the daemon made the name up, and the
// caller has gone.
func (d *Daemon) closeAbandoned(e *openSession, p client.CreateParams) {
	if p.Name == "" {
		d.log.Info("a session without a name is given up: its client does not want it any more", "session", e.name)
		d.wg.Go(func() { _ = d.removeSession(context.Background(), e) })
	}
}

// checkAdmission returns an error while the daemon accepts no new work.
func (d *Daemon) checkAdmission() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.draining:
		return session.Errorf(client.KindDraining, "the daemon is about to end and takes no new work")
	case d.paused:
		return session.Errorf(client.KindDraining, "the daemon is paused: resume it first")
	}
	return nil
}

// reserveName returns a free name for a new session, and keeps it until release. It waits
// while a session of that name is being opened: a client that is told that one exists can use it.
func (d *Daemon) reserveName(p client.CreateParams) (string, error) {
	for _, e := range d.sortedSessions() {
		if e.session.PreparationError() != nil && (e.name == p.Name || time.Since(d.describeSession(e).StateSince) > failureRetention) {
			_ = d.removeSession(context.Background(), e)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := p.Name
	for name == "" {
		d.counter++
		if made := fmt.Sprintf("%s-%d", p.Language, d.counter); d.openSessions[made] == nil && d.opening[made] == nil {
			name = made
		}
	}
	for d.opening[name] != nil {
		made := d.opening[name]
		d.mu.Unlock()
		<-made
		d.mu.Lock()
	}
	if d.openSessions[name] != nil {
		return "", session.Errorf(session.KindExists, "a session %q is open already", name)
	}
	d.opening[name] = make(chan struct{})
	return name, nil
}

// releaseName ends the opening of a session: it is there, or could not be opened.
func (d *Daemon) releaseName(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.opening[name])
	delete(d.opening, name)
}

// registerSession opens a session.
func (d *Daemon) registerSession(p client.CreateParams, spec workers.Spec, in *progressReporter) (*openSession, error) {
	name, err := d.reserveName(p)
	if err != nil {
		return nil, err
	}
	defer d.releaseName(name)
	s, err := d.acquireSession(p, name, spec)
	if err != nil {
		return nil, err
	}
	e := &openSession{
		name: name, language: p.Language, packages: p.Packages, lastUse: time.Now(), idleTimeout: d.options.SessionIdleTimeout,
		session: s, progress: in, startLock: make(chan struct{}, 1),
	}
	if p.SessionIdleTimeoutMS > 0 {
		e.idleTimeout = time.Duration(p.SessionIdleTimeoutMS) * time.Millisecond
	}
	d.mu.Lock()
	ended := d.ctx.Err() != nil // otherwise nobody would close it
	if !ended {
		d.openSessions[name] = e
		if d.sessionAdded != nil {
			close(d.sessionAdded)
			d.sessionAdded = nil
		}
	}
	d.mu.Unlock()
	if ended {
		_ = s.Close(context.Background())
		return nil, session.Errorf(client.KindDraining, "the daemon has ended")
	}
	d.log.Info("a session is opened", "session", name, "language", e.language)
	d.startIdleTimer(e)
	return e, nil
}

func (d *Daemon) forgetSession(e *openSession) {
	defer d.wakePools()
	e.mu.Lock()
	if e.idleTimer != nil {
		e.idleTimer.Stop()
	}
	e.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.openSessions[e.name] == e {
		delete(d.openSessions, e.name)
	}
}

// awaitSession finds a session. It waits while the session is being prepared.
func (d *Daemon) awaitSession(ctx context.Context, name string) (*openSession, error) {
	e, err := d.useSession(name)
	if err == nil {
		err = d.awaitPrepared(ctx, e)
	}
	return e, err
}

// useSession finds a session and notes that a client uses it. It does not wait.
func (d *Daemon) useSession(name string) (*openSession, error) {
	e, err := d.findSession(name)
	if err == nil {
		err = d.sessionError(e, e.session.PreparationError())
	}
	if err != nil {
		return nil, err
	}
	return e, e.noteUse()
}

// findSession finds a session.
func (d *Daemon) findSession(name string) (*openSession, error) {
	if name == "" {
		return nil, rpcserver.InvalidParams("session is required")
	}
	d.mu.Lock()
	e := d.openSessions[name]
	d.mu.Unlock()
	if e == nil {
		return nil, session.Errorf(session.KindClosed, "there is no session %q: %s", name, d.sessionNames())
	}
	return e, nil
}

// sessionNames lists the sessions in words.
func (d *Daemon) sessionNames() string {
	var names []string
	for _, e := range d.sortedSessions() {
		names = append(names, e.name)
	}
	if len(names) == 0 {
		return "none is open"
	}
	return "open are " + strings.Join(names, ", ")
}

// sortedSessions returns the entries by name.
func (d *Daemon) sortedSessions() []*openSession {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*openSession, 0, len(d.openSessions))
	for _, e := range d.openSessions {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *openSession) int { return strings.Compare(a.name, b.name) })
	return all
}

// supervisorSessions returns the open sessions.
func (d *Daemon) supervisorSessions() []*supervisor.Session {
	var open []*supervisor.Session
	for _, e := range d.sortedSessions() {
		open = append(open, e.session)
	}
	return open
}

// removeSession closes a session for good, unless ctx ends while a reset or a start is waited for.
func (d *Daemon) removeSession(ctx context.Context, e *openSession) error {
	err := e.session.Close(ctx)
	if err != nil && errors.Is(err, ctx.Err()) {
		return err // it goes on, and is found
	}
	if e.progress != nil {
		<-e.progress.done
	}
	d.forgetSession(e)
	d.mu.Lock()
	if b := d.writeLocks[e.name]; b != nil && b.entry == e {
		delete(d.writeLocks, e.name)
		delete(b.client.writeLocks, b)
	}
	for _, l := range d.connections {
		delete(l.client.wantedLocks, e)
	}
	for _, c := range d.knownClients { // also those that may come back
		delete(c.wantedLocks, e)
		c.locksAtDisconnect = slices.DeleteFunc(c.locksAtDisconnect, func(b *writeLock) bool { return b.entry == e })
	}
	d.mu.Unlock()
	return err
}

// closeSessions closes all sessions at once, when the daemon ends.
func (d *Daemon) closeSessions() {
	var closing sync.WaitGroup
	for _, e := range d.sortedSessions() {
		closing.Go(func() {
			if err := d.removeSession(context.Background(), e); err != nil {
				d.log.Warn("a session did not end cleanly", "session", e.name, "error", err)
			}
		})
	}
	closing.Wait()
}

// noteUse notes that a client uses the session.
func (e *openSession) noteUse() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isClosing {
		return session.Errorf(session.KindClosed, "the session %q was just closed: nobody had used it for %s", e.name, e.idleTimeout)
	}
	e.lastUse = time.Now()
	return nil
}

// startIdleTimer starts the timer that closes the session when nobody uses it.
func (d *Daemon) startIdleTimer(e *openSession) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.idleTimeout > 0 {
		e.idleTimer = time.AfterFunc(e.idleTimeout, func() { d.closeIfIdle(e) })
	}
}

// closeIfIdle closes a session that nobody uses. If the session is still in use, closeIfIdle sets
// the timer again.
func (d *Daemon) closeIfIdle(e *openSession) {
	inUse := d.isInUse(e)
	i, _ := e.session.Info(context.Background()) // which looks at its processes: not under a lock
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.openSessions[e.name] != e || d.draining {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if inUse {
		e.lastUse = time.Now()
	}
	if i.StateSince.After(e.lastUse) {
		e.lastUse = i.StateSince // a turn has ended since then
	}
	if left := e.idleTimeout - time.Since(e.lastUse); left > 0 {
		e.idleTimer.Reset(left)
		return
	}
	e.isClosing = true
	d.wg.Go(func() {
		d.log.Info("a session is closed", "session", e.name, "why", fmt.Sprintf("nobody has used it for %s", e.idleTimeout))
		_ = d.removeSession(context.Background(), e)
	})
}

// isInUse reports whether a session runs or waits, or a client is connected for it.
func (d *Daemon) isInUse(e *openSession) bool {
	switch e.session.State() {
	case session.StateIdle, session.StateEnded:
	default:
		return true
	}
	if e.hasReader() {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.currentLockLocked(e) != nil {
		return true
	}
	for _, l := range d.connections {
		if l.waitingCalls[e] > 0 {
			return true
		}
		for _, w := range l.subscriptions {
			if w.entry == e {
				return true
			}
		}
	}
	return false
}

// readerName returns the name under which a client reads, or "".
func (e *openSession) readerName(c *clientState) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, holder := range e.readers {
		if holder == c {
			return name
		}
	}
	return ""
}

// describeSession returns the description of a session for clients.
func (d *Daemon) describeSession(e *openSession) session.Info {
	i, _ := e.session.Info(context.Background()) // a session in this process never fails here
	i.Language, i.Packages = e.language, e.packages
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, watch := range d.subscriptions {
		if watch.entry == e {
			i.Watchers++
		}
	}
	if b := d.currentLockLocked(e); b != nil {
		i.WriteLockHolder = b.author
	}
	return i
}

// clientError returns an error in the form for clients. A session's error keeps its kind and its
// data.
func clientError(err error) error {
	e, ok := errors.AsType[*session.Error](err)
	if !ok {
		return err
	}
	code := rpcserver.CodeFailed
	if e.Kind == session.KindInvalid || e.Kind == session.KindSpec || e.Kind == client.KindUnknownLanguage {
		code = rpcserver.CodeInvalidParams
	}
	return &rpcserver.Error{Code: code, Kind: string(e.Kind), Message: err.Error(), Data: e.Data()}
}
