package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// progressPause is the least time between two frames for one token, but for the
	// last of all.
	progressPause = 100 * time.Millisecond

	// progressBeat is the most: who shows something knows that it is still true.
	progressBeat = 5 * time.Second
)

// errUnwanted ends a job that nobody waits for any more.
var errUnwanted = errors.New("nobody waits for it any more")

// A Progress tells how far a job is. Done does not shrink, and its unit is the job's.
type Progress struct {
	Done, Total int64  // Total is 0 while it is not known
	Message     string // one printable line
}

// A Job is what must be done before a session can be opened. However many sessions
// wait for jobs of one key, one of them is run.
type Job struct {
	// Key says what is the same for everybody who wants the same.
	Key string

	// Title is what is done, for those who wait, until Run says more.
	Title string

	// Run does it, until ctx ends. It calls report from one goroutine at a time, and
	// returns what becomes of the spec of each session that waited. The error, which
	// those who use the sessions get to read, may be that of a tool.
	Run func(ctx context.Context, report func(Progress)) (change func(*workers.Spec), err error)
}

// jobs are what has to be done for a session, in this order.
func (d *Daemon) jobs(p client.CreateParams, spec workers.Spec) ([]*Job, error) {
	var jobs []*Job
	if prepare := spec.Prepare; prepare != nil {
		jobs = append(jobs, &Job{
			Key:   "start\x00" + p.Language + "\x00" + spec.Path,
			Title: "preparing the worker",
			Run: func(ctx context.Context, report func(Progress)) (func(*workers.Spec), error) {
				made, err := prepare(ctx, func(message string) {
					d.log.Info("a worker is prepared", "language", p.Language, "says", message)
					report(Progress{Message: message})
				})
				return func(s *workers.Spec) {
					// The session need not do it again, for no generation.
					s.Prepare = nil
					s.Files = withFiles(s.Files, made)
				}, err
			},
		})
	}
	if len(p.With) > 0 {
		if d.o.Packages == nil {
			return nil, session.Errorf(session.KindUnsupported, "this daemon prepares no packages")
		}
		job, err := d.o.Packages(p, spec)
		if err != nil {
			return nil, rpc.InvalidParams("with: %v", err)
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// withFiles is both; neither changes.
func withFiles(a, b map[string][]byte) map[string][]byte {
	all := make(map[string][]byte, len(a)+len(b))
	for _, files := range []map[string][]byte{a, b} {
		for name, content := range files {
			all[name] = content
		}
	}
	return all
}

// flights are the jobs that run.
type flights struct {
	mu    sync.Mutex
	byKey map[string]*flight // guarded by mu
}

// A flight is one job that runs, with those who wait for it.
type flight struct {
	stop    context.CancelCauseFunc
	changed chan struct{} // holds one: there is something new to tell
	done    chan struct{} // closed when the next two are set
	change  func(*workers.Spec)
	err     error

	now     Progress            // guarded by flights.mu
	waiting map[*indicator]bool // guarded by flights.mu
}

// join waits for a job, which is begun when nobody has, and tells in how far it is.
// When ctx ends, the wait does, and the job only if nobody else waits.
func (d *Daemon) join(ctx context.Context, j *Job, in *indicator) (func(*workers.Spec), error) {
	d.flights.mu.Lock()
	f := d.flights.byKey[j.Key]
	if f == nil {
		f = d.takeOffLocked(j)
	}
	f.waiting[in] = true
	in.tell(f.now)
	d.flights.mu.Unlock()
	defer func() {
		d.flights.mu.Lock()
		defer d.flights.mu.Unlock()
		delete(f.waiting, in)
		if len(f.waiting) == 0 {
			f.stop(errUnwanted)
			d.landLocked(j, f) // who comes now must not wait for what is given up
		}
	}()
	select {
	case <-f.done:
		return f.change, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// takeOffLocked begins a job; d.flights.mu is held. It ends with the daemon.
func (d *Daemon) takeOffLocked(j *Job) *flight {
	d.mu.Lock()
	ctx, stop := context.WithCancelCause(d.ctx)
	d.mu.Unlock()
	f := &flight{
		stop: stop, changed: make(chan struct{}, 1), done: make(chan struct{}),
		waiting: make(map[*indicator]bool),
		now:     Progress{Message: j.Title},
	}
	d.flights.byKey[j.Key] = f
	d.wg.Go(func() {
		defer close(f.done)
		defer stop(nil)
		f.change, f.err = j.Run(ctx, func(p Progress) { d.report(f, p) })
		d.flights.mu.Lock()
		d.landLocked(j, f)
		d.flights.mu.Unlock()
	})
	d.wg.Go(func() { d.broadcast(f) })
	return f
}

// landLocked forgets a job; d.flights.mu is held.
func (d *Daemon) landLocked(j *Job, f *flight) {
	if d.flights.byKey[j.Key] == f {
		delete(d.flights.byKey, j.Key)
	}
}

func (d *Daemon) report(f *flight, p Progress) {
	d.flights.mu.Lock()
	p.Done = max(p.Done, f.now.Done)
	f.now = p
	d.flights.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// broadcast tells everybody who waits what is new, but not all the time. The newest
// is never left out, only what was overtaken.
func (d *Daemon) broadcast(f *flight) {
	beat := time.NewTicker(progressBeat)
	defer beat.Stop()
	for {
		select {
		case <-f.changed:
		case <-beat.C:
		case <-f.done:
			return
		}
		d.flights.mu.Lock()
		for in := range f.waiting {
			in.tell(f.now)
		}
		d.flights.mu.Unlock()
		select {
		case <-time.After(progressPause):
		case <-f.done:
			return
		}
	}
}

// An indicator is a token for which a client waits to be told. It begins where the
// job is, never goes back, and ends once: the last frame's total is its progress, and
// that of no other is. Nothing is kept of it.
type indicator struct {
	conn  *rpc.Conn
	token []byte // nil: nobody wants to know
	over  func() // gives the token back

	mu    sync.Mutex
	base  int64 // guarded by mu: what earlier jobs of the session have done
	last  int64 // guarded by mu: the progress of the last frame
	steps int   // guarded by mu: jobs that are still to be done
	ended bool  // guarded by mu
}

func newIndicator(conn *rpc.Conn, token []byte, jobs int) *indicator {
	return &indicator{conn: conn, token: token, over: func() {}, steps: jobs}
}

// tell sends a frame.
func (in *indicator) tell(p Progress) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended {
		return
	}
	in.last = max(in.last, in.base+p.Done)
	total := in.base + p.Total
	if p.Total <= 0 || in.steps > 1 {
		total = 0 // of all jobs together it is not known
	} else if in.last >= total {
		total = in.last + 1 // there is something left to be done, or it would be over
	}
	in.sendLocked(total, p.Message)
}

// next begins with the next job of the session.
func (in *indicator) next() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.base = in.last
	in.steps--
}

// end sends the last frame, however the work ended. Why is not said here: whoever
// uses the session is told.
func (in *indicator) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended {
		return
	}
	in.ended = true
	in.over() // before it is told: the token may be used again then
	in.last = max(in.last, 1)
	in.sendLocked(in.last, "")
}

// sendLocked never waits. A client that is gone is told nothing.
func (in *indicator) sendLocked(total int64, message string) {
	if in.token != nil {
		_ = in.conn.Notify(client.MethodProgress, client.HostProgress{Token: in.token, Progress: in.last, Total: total, Message: message})
	}
}

// prepare does all jobs for a session, and changes its spec accordingly.
func (d *Daemon) prepare(ctx context.Context, jobs []*Job, in *indicator, spec *workers.Spec) error {
	defer in.end()
	for _, j := range jobs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		change, err := d.join(ctx, j, in)
		if err != nil {
			return err
		}
		change(spec)
		in.next()
	}
	return nil
}
