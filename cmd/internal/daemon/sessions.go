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
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// An entry is an open session.
type entry struct {
	name, language string
	with           []string      // the packages that its creator asked for
	cullAfter      time.Duration // closed after this time without use; 0 means never
	session        *supervisor.Session
	indicator      *indicator // nil when no client wants progress of its preparation

	beginning chan struct{} // holds one token, for the client that starts a turn
	begun     begun         // guarded by Daemon.mu

	mu    sync.Mutex
	marks map[string]timeline.Seq // guarded by mu; how far each reader has read
	reads map[string]*caller      // guarded by mu; the last client that read under a name; it may have left
	used  time.Time               // guarded by mu; when a client last used it
	cull  *time.Timer             // guarded by mu; checks whether it is unused; nil when it may stay unused
	over  bool                    // guarded by mu; it was unused for too long and is being closed
}

const (
	// maxMarks bounds the readers that a session remembers, and the names under which one
	// client may read it.
	maxMarks = 64
)

// mark stores how far a reader has read, unless seq is 0, and returns the stored mark. With
// too many readers, it forgets the one that is furthest behind.
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

// readerPatience is how long a client waits for a reader's name that another client holds.
// A client that restarts may connect before the daemon sees the end of its old connection.
const readerPatience = time.Second

// ownReader reserves a reader's name for a client, and returns it. If another
// one holds the name, it returns the name with the least free number.
func (e *entry) ownReader(ctx context.Context, name string, c *caller) (string, error) {
	if has := e.nameOf(c, name); has != "" {
		return has, nil
	}
	patience, stop := context.WithTimeout(ctx, readerPatience)
	defer stop()
	own := name
	for n := 2; ; n++ {
		holder := e.holds(own, c)
		if holder == c {
			return own, nil
		}
		select {
		case <-holder.left():
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

// isRead reports whether a connected client reads the session under a name of its own. Such an
// agent may come back to its work after a long time.
func (e *entry) isRead() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.reads {
		if c.isHere() {
			return true
		}
	}
	return false
}

// nameOf returns the name that a client got when it asked for this name before.
func (e *entry) nameOf(c *caller, name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for has, holder := range e.reads {
		if holder == c && (has == name || strings.HasPrefix(has, name+"#")) {
			return has
		}
	}
	return ""
}

// mayRead returns an error if a client may not read under one more name.
func (e *entry) mayRead(name string, c *caller) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := 0
	for has, holder := range e.reads {
		if holder == c && has != name {
			names++
		}
	}
	if names >= maxMarks {
		return session.Errorf(session.KindLimit, "%d readers are the most of one client in a session", maxMarks)
	}
	return nil
}

// holds returns the connected client that reads under a name. If there is none, it is c from now
// on. The names of a client that may come back are kept for it while there is room.
func (e *entry) holds(name string, c *caller) *caller {
	e.mu.Lock()
	defer e.mu.Unlock()
	if holder := e.reads[name]; holder != nil && holder.isHere() {
		return holder
	}
	full := len(e.reads) >= maxMarks
	maps.DeleteFunc(e.reads, func(_ string, holder *caller) bool { return !holder.isHere() && (full || holder.id == "") })
	if e.reads == nil {
		e.reads = make(map[string]*caller)
	}
	e.reads[name] = c
	return c
}

// create opens a session. It returns at once when something has to be prepared first. call is the
// context of the call, which ends when it is answered.
func (d *Daemon) create(ctx, call context.Context, r *rpc.Request, p client.CreateParams) (*entry, error) {
	if p.Name != "" && !session.IsValidName(p.Name) {
		return nil, rpc.InvalidParams("name %q: use up to 64 letters, digits, dots, underscores and hyphens", p.Name)
	}
	if p.Dir != "" && !filepath.IsAbs(p.Dir) {
		return nil, rpc.InvalidParams("dir %q: give an absolute path, the daemon works elsewhere", p.Dir)
	}
	for name, value := range p.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return nil, rpc.InvalidParams("env: %q cannot be a variable of an environment", name)
		}
	}
	if p.Language == "" {
		p.Language = d.o.Languages()[0]
	}
	switch {
	case len(p.Command) > 0:
		if d.o.HasLanguage(p.Language) {
			return nil, rpc.InvalidParams("command: %s is a language of this daemon, which has its own", p.Language)
		}
		if !filepath.IsAbs(p.Command[0]) {
			return nil, rpc.InvalidParams("command %q: give an absolute path, the daemon works elsewhere", p.Command[0])
		}
	case !d.o.HasLanguage(p.Language):
		return nil, session.Errorf(client.KindUnknown, "there is no language %q: there is %s", p.Language, strings.Join(d.o.Languages(), ", "))
	}
	if err := d.admits(); err != nil {
		return nil, err
	}
	spec, err := d.o.Spec(p)
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
	var in *indicator
	if token := progressToken(r, p); token != nil && len(spec.Preparations) > 0 {
		if in, err = d.newIndicator(r.Conn, token); err != nil {
			return nil, err
		}
	}
	type opened struct {
		entry *entry
		err   error
	}
	done := make(chan opened, 1)
	d.wg.Go(func() {
		e, err := d.open(p, spec, in)
		if err != nil && in != nil {
			in.over()
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
				in.follow(o.entry.session)
			})
		}
		if ctx.Err() == nil && !r.Commit() {
			return o.entry, nil
		}
		d.abandon(o.entry, p)
	case <-ctx.Done():
		d.wg.Go(func() {
			if o := <-done; o.err == nil {
				d.abandon(o.entry, p)
				if in != nil {
					in.follow(o.entry.session)
				}
			}
		})
	}
	return nil, ctx.Err()
}

// abandon closes a session whose name nobody learns: the daemon made the name up, and the
// caller has gone.
func (d *Daemon) abandon(e *entry, p client.CreateParams) {
	if p.Name == "" {
		d.log.Info("a session without a name is given up: its client does not want it any more", "session", e.name)
		d.wg.Go(func() { _ = d.remove(context.Background(), e) })
	}
}

// admits returns an error while the daemon accepts no new work.
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

// newName returns a free name for a new session, and keeps it until release. It waits
// while a session of that name is being opened: a client that is told that one exists can use it.
func (d *Daemon) newName(p client.CreateParams) (string, error) {
	for _, e := range d.all() {
		if e.session.PreparationError() != nil && (e.name == p.Name || time.Since(d.describe(e).StateSince) > failedLimit) {
			_ = d.remove(context.Background(), e)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := p.Name
	for name == "" {
		d.counter++
		if made := fmt.Sprintf("%s-%d", p.Language, d.counter); d.entries[made] == nil && d.opening[made] == nil {
			name = made
		}
	}
	for d.opening[name] != nil {
		made := d.opening[name]
		d.mu.Unlock()
		<-made
		d.mu.Lock()
	}
	if d.entries[name] != nil {
		return "", session.Errorf(session.KindExists, "a session %q is open already", name)
	}
	d.opening[name] = make(chan struct{})
	return name, nil
}

// release ends the opening of a session: it is there, or could not be opened.
func (d *Daemon) release(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.opening[name])
	delete(d.opening, name)
}

// open opens a session.
func (d *Daemon) open(p client.CreateParams, spec workers.Spec, in *indicator) (*entry, error) {
	name, err := d.newName(p)
	if err != nil {
		return nil, err
	}
	defer d.release(name)
	s, err := d.openSession(p, name, spec)
	if err != nil {
		return nil, err
	}
	e := &entry{
		name: name, language: p.Language, with: p.With, used: time.Now(), cullAfter: d.o.CullIdle,
		session: s, indicator: in, beginning: make(chan struct{}, 1),
	}
	if p.CullMS > 0 {
		e.cullAfter = time.Duration(p.CullMS) * time.Millisecond
	}
	d.mu.Lock()
	ended := d.ctx.Err() != nil // otherwise nobody would close it
	if !ended {
		d.entries[name] = e
		if d.listed != nil {
			close(d.listed)
			d.listed = nil
		}
	}
	d.mu.Unlock()
	if ended {
		_ = s.Close(context.Background())
		return nil, session.Errorf(client.KindDraining, "the daemon has ended")
	}
	d.log.Info("a session is opened", "session", name, "language", e.language)
	d.watchUse(e)
	return e, nil
}

func (d *Daemon) forget(e *entry) {
	defer d.lookAtPools()
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

// session finds a session. It waits while the session is being prepared.
func (d *Daemon) session(ctx context.Context, name string) (*entry, error) {
	e, err := d.inUse(name)
	if err == nil {
		err = d.prepared(ctx, e)
	}
	return e, err
}

// inUse finds a session and notes that a client uses it. It does not wait.
func (d *Daemon) inUse(name string) (*entry, error) {
	e, err := d.known(name)
	if err == nil {
		err = d.told(e, e.session.PreparationError())
	}
	if err != nil {
		return nil, err
	}
	return e, e.touch()
}

// known finds a session.
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

// names lists the sessions in words.
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

// all returns the entries by name.
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

// sessions returns the open sessions.
func (d *Daemon) sessions() []*supervisor.Session {
	var open []*supervisor.Session
	for _, e := range d.all() {
		open = append(open, e.session)
	}
	return open
}

// remove closes a session for good, unless ctx ends while a reset or a start is waited for.
func (d *Daemon) remove(ctx context.Context, e *entry) error {
	err := e.session.Close(ctx)
	if err != nil && errors.Is(err, ctx.Err()) {
		return err // it goes on, and is found
	}
	if e.indicator != nil {
		<-e.indicator.ended
	}
	d.forget(e)
	d.mu.Lock()
	if b := d.writers[e.name]; b != nil && b.entry == e {
		delete(d.writers, e.name)
		delete(b.caller.keyboards, b)
	}
	for _, l := range d.connections {
		delete(l.caller.wants, e)
	}
	for _, c := range d.callers { // also those that may come back
		delete(c.wants, e)
		c.lost = slices.DeleteFunc(c.lost, func(b *keyboardHold) bool { return b.entry == e })
	}
	d.mu.Unlock()
	return err
}

// closeSessions closes all sessions at once, when the daemon ends.
func (d *Daemon) closeSessions() {
	var closing sync.WaitGroup
	for _, e := range d.all() {
		closing.Go(func() {
			if err := d.remove(context.Background(), e); err != nil {
				d.log.Warn("a session did not end cleanly", "session", e.name, "error", err)
			}
		})
	}
	closing.Wait()
}

// touch notes that a client uses the session.
func (e *entry) touch() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return session.Errorf(session.KindClosed, "the session %q was just closed: nobody had used it for %s", e.name, e.cullAfter)
	}
	e.used = time.Now()
	return nil
}

// watchUse starts the timer that closes the session when nobody uses it.
func (d *Daemon) watchUse(e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cullAfter > 0 {
		e.cull = time.AfterFunc(e.cullAfter, func() { d.cullEntry(e) })
	}
}

// cullEntry closes a session that nobody uses. If the session is still in use, cullEntry sets
// the timer again.
func (d *Daemon) cullEntry(e *entry) {
	inUse := d.isUsed(e)
	i, _ := e.session.Info(context.Background()) // which looks at its processes: not under a lock
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
	if i.StateSince.After(e.used) {
		e.used = i.StateSince // a turn has ended since then
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

// isUsed reports whether a session runs or waits, or a client is connected for it.
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
	if d.keyboardLocked(e) != nil {
		return true
	}
	for _, l := range d.connections {
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

// readsAs returns the name under which a client reads, or "".
func (e *entry) readsAs(c *caller) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, holder := range e.reads {
		if holder == c {
			return name
		}
	}
	return ""
}

// describe returns the description of a session for clients.
func (d *Daemon) describe(e *entry) session.Info {
	i, _ := e.session.Info(context.Background()) // a session in this process never fails here
	i.Language, i.Packages = e.language, e.with
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, watch := range d.watches {
		if watch.entry == e {
			i.Watchers++
		}
	}
	if b := d.keyboardLocked(e); b != nil {
		i.WriteLockHolder = b.author
	}
	return i
}

// failure returns an error in the form for clients. A session's error keeps its kind and its
// data.
func failure(err error) error {
	e, ok := errors.AsType[*session.Error](err)
	if !ok {
		return err
	}
	code := rpc.CodeFailed
	if e.Kind == session.KindInvalid || e.Kind == session.KindSpec || e.Kind == client.KindUnknown {
		code = rpc.CodeInvalidParams
	}
	return &rpc.Error{Code: code, Kind: string(e.Kind), Message: err.Error(), Data: e.Data()}
}
