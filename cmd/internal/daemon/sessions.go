package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
	"github.com/turnstone-repl/turnstone/internal/jsonline"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// An entry is a session, also before it is open.
type entry struct {
	name, language string
	with           []string                // packages that are prepared for it
	made           time.Time               // when it was asked for
	cullAfter      time.Duration           // unused for so long it is closed; 0: never
	cancel         context.CancelCauseFunc // gives up opening it

	beginning chan struct{} // holds one: who starts a turn
	begun     begun         // guarded by Daemon.mu

	opened  chan struct{} // closed when the next three are set
	session *supervisor.Session
	err     error     // why there is none
	failed  time.Time // since when

	mu    sync.Mutex
	marks map[string]timeline.Seq // guarded by mu: how far readers have read
	reads map[string]*rpc.Conn    // guarded by mu: who last read under a name; it may have ended
	used  time.Time               // guarded by mu: when a client last wanted something of it
	cull  *time.Timer             // guarded by mu: looks whether it is unused; nil when it is never closed for that
	over  bool                    // guarded by mu: it was, and is being closed
}

const (
	// maxProvisional bounds the sessions that are prepared, or could not be.
	maxProvisional = 64

	// failedLimit is how long is remembered why a session could not be prepared, if
	// nobody asks.
	failedLimit = 10 * time.Minute
)

// errForsaken is why a session is not prepared any further.
var errForsaken = errors.New("the session was closed before it was ready")

// isSettled reports whether the session is open, or never will be.
func (e *entry) isSettled() bool {
	select {
	case <-e.opened:
		return true
	default:
		return false
	}
}

// isFailed reports whether the session never will be open.
func (e *entry) isFailed() bool { return e.isSettled() && e.err != nil }

const (
	// maxMarks bounds the readers that a session remembers, and the names under which
	// one connection reads in it.
	maxMarks = 64
)

// mark remembers how far a reader has read, if seq is not 0, and returns it. When
// there are too many readers, the one that is furthest behind is forgotten.
func (e *entry) mark(reader string, seq timeline.Seq) timeline.Seq {
	e.mu.Lock()
	defer e.mu.Unlock()
	if seq == 0 || seq <= e.marks[reader] {
		return e.marks[reader]
	}
	if e.marks == nil {
		e.marks = make(map[string]timeline.Seq)
	}
	e.marks[reader] = seq
	if len(e.marks) > maxMarks {
		oldest := reader
		for r, s := range e.marks {
			if s < e.marks[oldest] {
				oldest = r
			}
		}
		delete(e.marks, oldest)
	}
	return seq
}

// readerPatience is how long the end of a connection is waited for that has a reader's
// name: who is started anew may be here before the end of the one before is known.
const readerPatience = time.Second

// ownReader is the name, or else the name with the least number, under which no other
// connection reads; from now on this one does.
func (e *entry) ownReader(ctx context.Context, name string, conn *rpc.Conn) (string, error) {
	if has := e.nameOf(conn, name); has != "" {
		return has, nil
	}
	patience, stop := context.WithTimeout(ctx, readerPatience)
	defer stop()
	own := name
	for n := 2; ; n++ {
		holder := e.holds(own, conn)
		if holder == conn {
			return own, nil
		}
		select {
		case <-holder.Context().Done():
			n--
			continue // it is free, unless somebody was faster
		case <-patience.Done():
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		own = fmt.Sprintf("%s#%d", name, n)
	}
}

// isRead reports whether somebody who is there reads under a name of their own: an
// agent that may go on with what it left in the session, however long it thinks.
func (e *entry) isRead() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.reads {
		if c.Context().Err() == nil {
			return true
		}
	}
	return false
}

// nameOf is what a connection was given before that asked for this name.
func (e *entry) nameOf(conn *rpc.Conn, name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for has, c := range e.reads {
		if c == conn && (has == name || strings.HasPrefix(has, name+"#")) {
			return has
		}
	}
	return ""
}

// mayRead says why a connection may not read under one more name.
func (e *entry) mayRead(name string, conn *rpc.Conn) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := 0
	for has, c := range e.reads {
		if c == conn && has != name {
			names++
		}
	}
	if names >= maxMarks {
		return session.Errorf(session.KindLimit, "%d readers are the most of one connection in a session", maxMarks)
	}
	return nil
}

// holds is the connection that reads under a name: conn, if no other does that lives.
func (e *entry) holds(name string, conn *rpc.Conn) *rpc.Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	if holder := e.reads[name]; holder != nil && holder.Context().Err() == nil {
		return holder
	}
	maps.DeleteFunc(e.reads, func(_ string, c *rpc.Conn) bool { return c.Context().Err() != nil })
	if e.reads == nil {
		e.reads = make(map[string]*rpc.Conn)
	}
	e.reads[name] = conn
	return conn
}

var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// create opens a session. One for which something has to be prepared first is
// provisional: the call returns, and who uses the session waits for it.
func (d *Daemon) create(ctx context.Context, r *rpc.Request, p client.CreateParams) (*entry, error) {
	if p.Name != "" && !goodName.MatchString(p.Name) {
		return nil, rpc.InvalidParams("name %q: use up to 64 letters, digits, dots, underscores and hyphens", p.Name)
	}
	if p.Dir != "" && !filepath.IsAbs(p.Dir) {
		return nil, rpc.InvalidParams("dir %q: give an absolute path, the daemon works elsewhere", p.Dir)
	}
	if p.Language == "" {
		p.Language = d.o.Languages[0]
	}
	if !slices.Contains(d.o.Languages, p.Language) {
		return nil, session.Errorf(client.KindUnknown, "there is no language %q: there is %s", p.Language, strings.Join(d.o.Languages, ", "))
	}
	if err := d.admits(); err != nil {
		return nil, err
	}
	spec, err := d.o.Spec(p)
	if err == nil {
		err = spec.Err
	}
	if err != nil {
		return nil, session.Errorf(session.KindStart, "%v", err)
	}
	jobs, err := d.jobs(p, spec)
	if err != nil {
		return nil, err
	}
	over := func() {}
	token := progressToken(r, p)
	if len(jobs) > 0 && token != nil {
		if over, err = d.claimToken(r.Conn, token); err != nil {
			return nil, err
		}
	}
	e, opening, err := d.reserve(p)
	if err != nil {
		over()
		return nil, err
	}
	if len(jobs) > 0 {
		in := newIndicator(r.Conn, token, len(jobs))
		in.over = over
		// The answer says that the session is provisional before anything else is said.
		r.AfterAnswer(func() { d.wg.Go(func() { d.openEntry(opening, e, spec, jobs, in) }) })
		if p.Name == "" && (r.Commit() || ctx.Err() != nil) {
			d.abandon(e, p)
			return nil, ctx.Err()
		}
		return e, nil
	}
	d.wg.Go(func() { d.openEntry(opening, e, spec, nil, newIndicator(r.Conn, nil, 0)) })
	select {
	case <-e.opened:
	case <-ctx.Done():
	}
	// Nobody would ever learn a name that was made up for a caller who has gone.
	if ctx.Err() != nil || r.Commit() {
		d.abandon(e, p)
		return nil, ctx.Err()
	}
	return e, d.outcome(e)
}

// abandon gives up a session whose name its caller does not know.
func (d *Daemon) abandon(e *entry, p client.CreateParams) {
	if p.Name == "" {
		d.log.Info("a session without a name is given up: its client does not want it any more", "session", e.name)
		e.cancel(errForsaken)
		d.wg.Go(func() { _ = d.forsake(context.Background(), e) })
	}
}

// progressToken is what the caller wants progress for; nil when it wants none.
func progressToken(r *rpc.Request, p client.CreateParams) []byte {
	if len(p.Token) == 0 {
		return r.Token()
	}
	if jsonline.IsID(p.Token) {
		return p.Token
	}
	return nil
}

// claimToken takes a token of a connection until over is called: frames of two sessions
// for one could not be told apart.
func (d *Daemon) claimToken(conn *rpc.Conn, token []byte) (over func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lines[conn]
	if l == nil { // it has hung up
		return func() {}, nil
	}
	if l.tokens[string(token)] {
		return nil, rpc.InvalidParams("progressToken %s: another session of this connection is being prepared with it", token)
	}
	l.tokens[string(token)] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(l.tokens, string(token))
	}, nil
}

// admits says why no new work is taken.
func (d *Daemon) admits() error {
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

// reserve takes the name of a session, for as long as the context is for.
func (d *Daemon) reserve(p client.CreateParams) (*entry, context.Context, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	provisional := 0
	for name, e := range d.entries {
		switch {
		case e.isFailed() && (name == p.Name || time.Since(e.failed) > failedLimit):
			delete(d.entries, name)
		case !e.isSettled() || e.err != nil:
			provisional++
		}
	}
	if provisional >= maxProvisional {
		return nil, nil, session.Errorf(session.KindLimit, "%d sessions are being prepared: wait for one, or close one", provisional)
	}
	name := p.Name
	for name == "" {
		d.counter++
		if made := fmt.Sprintf("%s-%d", p.Language, d.counter); d.entries[made] == nil {
			name = made
		}
	}
	if d.entries[name] != nil {
		return nil, nil, session.Errorf(session.KindExists, "a session %q is open already", name)
	}
	e := &entry{
		name: name, language: p.Language, with: p.With, made: time.Now(), used: time.Now(), cullAfter: d.o.CullIdle,
		opened: make(chan struct{}), beginning: make(chan struct{}, 1),
	}
	if p.CullMS > 0 {
		e.cullAfter = time.Duration(p.CullMS) * time.Millisecond
	}
	ctx, cancel := context.WithCancelCause(d.ctx)
	e.cancel = cancel
	d.entries[name] = e
	return e, ctx, nil
}

// openEntry opens the session of an entry, once all jobs are done. One that fails
// stays until somebody was told why.
func (d *Daemon) openEntry(ctx context.Context, e *entry, spec workers.Spec, jobs []*Job, in *indicator) {
	defer close(e.opened)
	defer e.cancel(nil)
	err := d.prepare(ctx, jobs, in, &spec)
	switch {
	case errors.Is(err, errForsaken):
		e.err = session.Errorf(session.KindClosed, "%v", err)
	case err != nil:
		e.err = &rpc.Error{Code: rpc.CodeFailed, Kind: string(session.KindStart), Message: err.Error(), Data: map[string]any{"with": e.with}}
	default:
		e.session, err = d.o.Supervisor.Open(ctx, e.name, spec)
		e.err = failure(err)
	}
	e.failed = time.Now()
	if e.err == nil {
		d.log.Info("a session is opened", "session", e.name, "language", e.language)
		d.watchUse(e)
	}
}

// outcome is why an entry that is settled could not be opened, or nil. Who learns
// that it could not be is the last to: the name is free then.
func (d *Daemon) outcome(e *entry) error {
	if e.err != nil {
		d.forget(e)
	}
	return e.err
}

func (d *Daemon) forget(e *entry) {
	e.mu.Lock()
	if e.cull != nil {
		e.cull.Stop()
	}
	e.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries[e.name] == e {
		delete(d.entries, e.name)
	}
}

// forsake gives up a session that is not open yet, or never will be.
func (d *Daemon) forsake(ctx context.Context, e *entry) error {
	e.cancel(errForsaken)
	select {
	case <-e.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.outcome(e) != nil {
		return nil
	}
	return d.remove(ctx, e) // it was ready in the last moment
}

// session finds a session, and waits for one that is provisional.
func (d *Daemon) session(ctx context.Context, name string) (*entry, error) {
	e, err := d.known(name)
	if err != nil {
		return nil, err
	}
	if !e.isSettled() { // else it does not matter that ctx may have ended
		select {
		case <-e.opened:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := d.outcome(e); err != nil {
		return nil, err
	}
	return e, e.touch()
}

// known finds a session, also one that is provisional.
func (d *Daemon) known(name string) (*entry, error) {
	if name == "" {
		return nil, rpc.InvalidParams("session is required")
	}
	d.mu.Lock()
	e := d.entries[name]
	d.mu.Unlock()
	if e == nil {
		return nil, session.Errorf(session.KindClosed, "there is no session %q: %s", name, d.names())
	}
	return e, nil
}

// names says which sessions there are.
func (d *Daemon) names() string {
	var names []string
	for _, e := range d.all() {
		names = append(names, e.name)
	}
	if len(names) == 0 {
		return "none is open"
	}
	return "open are " + strings.Join(names, ", ")
}

// all is the entries by name.
func (d *Daemon) all() []*entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*entry, 0, len(d.entries))
	for _, e := range d.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	return all
}

// open is the sessions that are open.
func (d *Daemon) open() []*supervisor.Session {
	var open []*supervisor.Session
	for _, e := range d.all() {
		if s, ok := e.isOpen(); ok {
			open = append(open, s)
		}
	}
	return open
}

func (e *entry) isOpen() (*supervisor.Session, bool) {
	if !e.isSettled() {
		return nil, false
	}
	return e.session, e.err == nil
}

// remove closes a session for good.
func (d *Daemon) remove(ctx context.Context, e *entry) error {
	err := e.session.Close(ctx)
	d.forget(e)
	d.mu.Lock()
	if b := d.writers[e.name]; b != nil && b.entry == e {
		delete(d.writers, e.name)
	}
	d.mu.Unlock()
	return err
}

// closeSessions closes all of them at once, when the daemon ends.
func (d *Daemon) closeSessions() {
	var closing sync.WaitGroup
	for _, e := range d.all() {
		closing.Go(func() {
			<-e.opened // what opens it ends with the daemon
			if e.err != nil {
				return
			}
			if err := d.remove(context.Background(), e); err != nil {
				d.log.Warn("a session did not end cleanly", "session", e.name, "error", err)
			}
		})
	}
	closing.Wait()
}

// touch notes that a client wants something of the session.
func (e *entry) touch() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return session.Errorf(session.KindClosed, "the session %q was just closed: nobody had used it for %s", e.name, e.cullAfter)
	}
	e.used = time.Now()
	return nil
}

// watchUse closes the session once nobody has used it for as long as it may be unused.
func (d *Daemon) watchUse(e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cullAfter > 0 {
		e.cull = time.AfterFunc(e.cullAfter, func() { d.cullEntry(e) })
	}
}

// cullEntry closes a session that is not in use, or looks again when it could be.
func (d *Daemon) cullEntry(e *entry) {
	inUse := d.isUsed(e)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries[e.name] != e || d.draining {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if inUse {
		e.used = time.Now()
	}
	if i, _ := e.session.Info(context.Background()); i.Since.After(e.used) {
		e.used = i.Since // its turn has ended since then
	}
	if left := e.cullAfter - time.Since(e.used); left > 0 {
		e.cull.Reset(left)
		return
	}
	e.over = true
	d.wg.Go(func() {
		d.log.Info("a session is closed", "session", e.name, "why", fmt.Sprintf("nobody has used it for %s", e.cullAfter))
		_ = d.remove(context.Background(), e)
	})
}

// isUsed reports whether a session runs or waits, or somebody is there for it.
func (d *Daemon) isUsed(e *entry) bool {
	switch e.session.State() {
	case session.StateIdle, session.StateEnded:
	default:
		return true
	}
	if e.isRead() {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.batonLocked(e) != nil {
		return true
	}
	for _, l := range d.lines {
		if l.calls[e] > 0 {
			return true
		}
		for _, w := range l.watches {
			if w.entry == e {
				return true
			}
		}
	}
	return false
}

// readsAs is the name under which a connection reads, or "".
func (e *entry) readsAs(conn *rpc.Conn) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, c := range e.reads {
		if c == conn {
			return name
		}
	}
	return ""
}

// describe is what a client is told of a session.
func (d *Daemon) describe(e *entry) session.Info {
	s, ok := e.isOpen()
	if !ok {
		i := session.Info{Name: e.name, Language: e.language, State: session.StateStarting, Since: e.made, Opened: e.made, Preparing: true, With: e.with}
		if e.isFailed() {
			i.State, i.Since, i.Preparing, i.Failure = session.StateEnded, e.failed, false, e.err.Error()
		}
		return i
	}
	i, _ := s.Info(context.Background()) // one of this process makes no error
	i.Language, i.With = e.language, e.with
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, watch := range d.watches {
		if watch.entry == e {
			i.Watchers++
		}
	}
	if b := d.batonLocked(e); b != nil {
		i.Writer = b.author
	}
	return i
}

// failure is an error as a client gets it: a session's, by its kind and with its data.
func failure(err error) error {
	e, ok := errors.AsType[*session.Error](err)
	if !ok {
		return err
	}
	code := rpc.CodeFailed
	if e.Kind == session.KindInvalid || e.Kind == client.KindUnknown {
		code = rpc.CodeInvalidParams
	}
	return &rpc.Error{Code: code, Kind: string(e.Kind), Message: err.Error(), Data: e.Data()}
}
