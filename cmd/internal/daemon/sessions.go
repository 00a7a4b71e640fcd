package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// An openSession is a session of the supervisor with the additions of the daemon: readers, the
// write lock and the idle timer.
type openSession struct {
	name, language string
	packages       []string      // the packages that its creator requested
	idleTimeout    time.Duration // 0 means without limit
	session        *supervisor.Session
	progress       *progressReporter // nil if no client asked for progress of its preparation

	functionsMu  sync.Mutex     // held while functions are replaced, which takes locks of package supervisor and Daemon.mu
	functionSets []*functionSet // guarded by functionsMu; the oldest first

	startLock   chan struct{} // holds one token, for the client that starts a turn
	lastStarter turnStarter   // guarded by Daemon.mu

	mu          sync.Mutex
	readCursors map[string]timeline.Seq // guarded by mu; how far each reader has read
	readers     map[string]*clientState // guarded by mu; by name, the last client that read under it; it may be disconnected
	lastUse     time.Time               // guarded by mu; when a client last used it
	idleTimer   *time.Timer             // guarded by mu; checks whether the session is unused; nil without an idle timeout
	isClosing   bool                    // guarded by mu; the idle timeout has passed and the session is being closed
}

// maxReaders bounds the readers that a session remembers, and the names under which one client
// may read it.
const maxReaders = 64

// saveReadCursor stores how far a reader has read, unless seq is 0, and returns the stored cursor.
// With too many readers, it forgets the reader that is furthest behind.
func (o *openSession) saveReadCursor(reader string, seq timeline.Seq) timeline.Seq {
	o.mu.Lock()
	defer o.mu.Unlock()
	if seq == 0 || seq <= o.readCursors[reader] {
		return o.readCursors[reader]
	}
	if o.readCursors == nil {
		o.readCursors = make(map[string]timeline.Seq)
	}
	o.readCursors[reader] = seq
	if len(o.readCursors) > maxReaders {
		oldest := reader
		for r, s := range o.readCursors {
			if s < o.readCursors[oldest] {
				oldest = r
			}
		}
		delete(o.readCursors, oldest)
	}
	return seq
}

// readerNameTimeout is how long a client waits for a reader name that another client holds. A
// client that restarts may connect before the daemon notices the end of its old connection.
const readerNameTimeout = time.Second

// reserveReader reserves a reader name for a client, and returns it. If another client holds the
// name, it returns the name with the lowest free number, such as name#2.
func (o *openSession) reserveReader(ctx context.Context, name string, c *clientState) (string, error) {
	if reserved := o.readerNameOf(c, name); reserved != "" {
		return reserved, nil
	}
	timeout, stop := context.WithTimeout(ctx, readerNameTimeout)
	defer stop()
	own := name
	for n := 2; ; n++ {
		holder := o.claimReader(own, c)
		if holder == c {
			return own, nil
		}
		select {
		case <-holder.disconnected():
			n--
			continue // try the same name again, unless another client was faster
		case <-timeout.Done():
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		own = fmt.Sprintf("%s#%d", name, n)
	}
}

// hasReader reports whether a connected client has a reader name of the session. An agent with a
// reader name may continue its work after a long time.
func (o *openSession) hasReader() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.readers {
		if c.isConnected() {
			return true
		}
	}
	return false
}

// readerNameOf returns the reader name that a client got for an earlier request for name. It
// returns "" without such a request.
func (o *openSession) readerNameOf(c *clientState, name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for reserved, holder := range o.readers {
		if holder == c && (reserved == name || strings.HasPrefix(reserved, name+"#")) {
			return reserved
		}
	}
	return ""
}

// checkReaderLimit returns an error if a client may not read under one more name.
func (o *openSession) checkReaderLimit(name string, c *clientState) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := 0
	for reserved, holder := range o.readers {
		if holder == c && reserved != name {
			names++
		}
	}
	if names >= maxReaders {
		return session.Errorf(session.KindLimit, "a client may have %d readers in a session", maxReaders)
	}
	return nil
}

// claimReader returns the connected client that reads under a name. If the name is free, that is c
// from now on. The names of disconnected clients with an identity stay reserved while there is
// room.
func (o *openSession) claimReader(name string, c *clientState) *clientState {
	o.mu.Lock()
	defer o.mu.Unlock()
	if holder := o.readers[name]; holder != nil && holder.isConnected() {
		return holder
	}
	full := len(o.readers) >= maxReaders
	maps.DeleteFunc(o.readers, func(_ string, holder *clientState) bool { return !holder.isConnected() && (full || holder.id == "") })
	if o.readers == nil {
		o.readers = make(map[string]*clientState)
	}
	o.readers[name] = c
	return c
}

// checkAdmission returns an error while the daemon accepts no new work.
func (d *Daemon) checkAdmission() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.draining:
		return session.Errorf(session.KindDraining, "the daemon is stopping and accepts no new work")
	case d.paused:
		return session.Errorf(session.KindDraining, "the daemon is paused; resume it first")
	}
	return nil
}

// reserveName returns a free name for a new session, and reserves it until releaseName. It waits
// while another session of that name is being opened, so that a client whose request is refused can
// use that session at once.
func (d *Daemon) reserveName(p protocol.CreateParams) (string, error) {
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
		if candidate := fmt.Sprintf("%s-%d", p.Language, d.counter); d.openSessions[candidate] == nil && d.opening[candidate] == nil {
			name = candidate
		}
	}
	for d.opening[name] != nil {
		opened := d.opening[name]
		d.mu.Unlock()
		<-opened
		d.mu.Lock()
	}
	if d.openSessions[name] != nil {
		return "", session.Errorf(session.KindExists, "session %q is already open", name)
	}
	d.opening[name] = make(chan struct{})
	return name, nil
}

// releaseName ends the reservation of a name, after the session was opened or could not be.
func (d *Daemon) releaseName(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.opening[name])
	delete(d.opening, name)
}

// registerSession opens a session, and adds it to the sessions of the daemon.
func (d *Daemon) registerSession(p protocol.CreateParams, spec workers.Spec, progress *progressReporter) (*openSession, error) {
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
		session: s, progress: progress, startLock: make(chan struct{}, 1),
	}
	if p.SessionIdleTimeoutMS > 0 {
		e.idleTimeout = time.Duration(p.SessionIdleTimeoutMS) * time.Millisecond
	}
	d.mu.Lock()
	ended := d.ctx.Err() != nil // Serve would not close a session that is added now
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
		return nil, session.Errorf(session.KindDraining, "the daemon has stopped")
	}
	d.log.Info("session created", "session", name, "language", e.language)
	d.startIdleTimer(e)
	return e, nil
}

// forgetSession removes a session from the sessions of the daemon, and stops its idle timer.
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

// awaitSession returns an open session that a client uses. It waits while the session is being
// prepared.
func (d *Daemon) awaitSession(ctx context.Context, name string) (*openSession, error) {
	e, err := d.useSession(name)
	if err == nil {
		err = d.awaitPrepared(ctx, e)
	}
	return e, err
}

// useSession returns an open session, and notes that a client uses it. It does not wait.
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

// findSession returns the open session with a name. It does not count as use.
func (d *Daemon) findSession(name string) (*openSession, error) {
	if name == "" {
		return nil, rpcserver.InvalidParams("session is required")
	}
	d.mu.Lock()
	e := d.openSessions[name]
	d.mu.Unlock()
	if e == nil {
		return nil, session.Errorf(session.KindClosed, "no session %q; %s", name, d.sessionNames())
	}
	return e, nil
}

// sessionNames lists the open sessions as part of an error message.
func (d *Daemon) sessionNames() string {
	var names []string
	for _, e := range d.sortedSessions() {
		names = append(names, e.name)
	}
	if len(names) == 0 {
		return "no session is open"
	}
	return "open sessions: " + strings.Join(names, ", ")
}

// sortedSessions returns the open sessions, sorted by name.
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

// supervisorSessions returns the sessions of the supervisor behind the open sessions.
func (d *Daemon) supervisorSessions() []*supervisor.Session {
	var open []*supervisor.Session
	for _, e := range d.sortedSessions() {
		open = append(open, e.session)
	}
	return open
}

// removeSession closes a session for good, unless ctx ends while it waits for a reset or a start.
func (d *Daemon) removeSession(ctx context.Context, e *openSession) error {
	err := e.session.Close(ctx)
	if err != nil && errors.Is(err, ctx.Err()) {
		return err // the session stays open, and can be found
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
	for _, c := range d.knownClients { // including disconnected ones
		delete(c.wantedLocks, e)
		c.locksAtDisconnect = slices.DeleteFunc(c.locksAtDisconnect, func(b *writeLock) bool { return b.entry == e })
	}
	d.mu.Unlock()
	return err
}

// closeSessions closes all sessions concurrently, when the daemon stops.
func (d *Daemon) closeSessions() {
	var closing sync.WaitGroup
	for _, e := range d.sortedSessions() {
		closing.Go(func() {
			if err := d.removeSession(context.Background(), e); err != nil {
				d.log.Warn("session close failed", "session", e.name, "error", err)
			}
		})
	}
	closing.Wait()
}

// readerName returns the name under which a client reads, or "".
func (o *openSession) readerName(c *clientState) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, holder := range o.readers {
		if holder == c {
			return name
		}
	}
	return ""
}

// describeSession returns the description of a session for clients.
func (d *Daemon) describeSession(e *openSession) session.Info {
	i, _ := e.session.Info(context.Background()) // never fails for a session in this process
	i.Language, i.Packages = e.language, e.packages
	for _, s := range e.listFunctions() {
		i.Functions += len(s.functions)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.subscriptions {
		if w.entry == e {
			i.Watchers++
		}
	}
	if b := d.currentLockLocked(e); b != nil {
		i.WriteLockHolder = b.author
	}
	return i
}

// clientError returns err in the form for clients. An error of a session keeps its kind and its
// data.
func clientError(err error) error {
	e, ok := errors.AsType[*session.Error](err)
	if !ok {
		return err
	}
	code := rpcserver.CodeFailed
	if e.Kind == session.KindInvalid || e.Kind == session.KindSpec || e.Kind == session.KindUnknownLanguage {
		code = rpcserver.CodeInvalidParams
	}
	return &rpcserver.Error{Code: code, Kind: string(e.Kind), Message: err.Error(), Data: e.Data()}
}

// A subscription sends the events of a timeline to a client, each once and in order. Unless paused,
// it has a goroutine. A subscription to ticks has no position, and may be for all sessions.
type subscription struct {
	id          string
	order       uint64       // grows with each subscription
	entry       *openSession // nil means all sessions
	changesOnly bool
	blobRefs    bool // large data is only named, by its digest
	conn        *rpcserver.Conn

	sentUpTo atomic.Uint64 // a timeline.Seq: everything up to it was sent

	// Only the goroutine that runs the inline methods of the connection uses these fields.
	stop    context.CancelFunc // nil while paused
	stopped chan struct{}      // closed when the goroutine has ended
}

// sessionName returns the name of the session; "" for all sessions.
func (s *subscription) sessionName() string {
	if s.entry == nil {
		return ""
	}
	return s.entry.name
}

// awaitPrepared waits while a session is being prepared. If the preparation failed, it returns the
// failure, and closes the session, so that its name is free.
func (d *Daemon) awaitPrepared(ctx context.Context, e *openSession) error {
	return d.sessionError(e, e.session.WaitPrepared(ctx))
}

// sessionError returns the error about a session that a client gets, or nil. It first waits for the
// end of the progress reports, so that the client gets the last frame before the error.
func (d *Daemon) sessionError(e *openSession, err error) error {
	if e.progress != nil && e.session.State() != session.StatePreparing {
		<-e.progress.done
	}
	failure := e.session.PreparationError()
	if err == nil || failure == nil {
		return err
	}
	_ = d.removeSession(context.Background(), e)
	return &rpcserver.Error{Code: rpcserver.CodeFailed, Kind: string(session.KindStart), Message: failure.Error(), Data: map[string]any{"packages": e.packages}}
}

// readableSession returns a session to read, even one whose preparation failed. Reading counts as
// use.
func (d *Daemon) readableSession(name string) (*openSession, error) {
	e, err := d.findSession(name)
	if err == nil {
		err = e.noteUse()
	}
	return e, err
}

// isSessionClosedLocked reports whether the session of a subscription is closed. The caller holds
// d.mu.
func (d *Daemon) isSessionClosedLocked(w *subscription) bool {
	return w.entry != nil && d.openSessions[w.entry.name] != w.entry
}
