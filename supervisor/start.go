package supervisor

import (
	"context"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A startUp is one try to start a worker: it prepares the spec, then starts the process.
// No caller's context ends it. Reset and Close give it up before the process is started.
type startUp struct {
	stop context.CancelCauseFunc // gives up the preparation
	done chan struct{}           // closed when there is a process, or will be none
	left chan struct{}           // closed when it does nothing any more
	err  error                   // set then; nil also when Reset has begun another in its place
}

// wait waits for the process.
func (u *startUp) wait(ctx context.Context) error {
	select {
	case <-u.done:
		return u.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Prepared waits while the session is being prepared, and returns why it could not be,
// or ctx's error.
func (s *Session) Prepared(ctx context.Context) error {
	for {
		s.mu.Lock()
		u, preparing, err := s.starting, s.m.phase == phasePreparing, s.failure
		changed := s.changedLocked()
		s.mu.Unlock()
		if !preparing {
			return err
		}
		select {
		case <-u.done:
			if u.err != nil {
				return u.err
			}
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Failure is why the session could not be prepared; nil when it could, or is being.
func (s *Session) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// startLocked begins to start a worker: there is none, and none is being started.
func (s *Session) startLocked() *startUp {
	ctx, stop := context.WithCancelCause(context.Background())
	u := &startUp{stop: stop, done: make(chan struct{}), left: make(chan struct{})}
	before := s.givenUp
	s.starting, s.failure = u, nil
	prepare := len(s.spec.Preparations) > 0
	s.m.start(s.spec.Name+" "+s.spec.Path, prepare)
	if s.m.generation == 1 && s.lost != nil {
		s.m.notice("%s", s.lost.notice(s.o.Recover))
	}
	s.starts.Go(func() {
		defer close(u.left)
		if before != nil {
			<-before.left // or this one would join the preparation that is given up
		}
		if !prepare || s.prepare(ctx, u) {
			s.startProcess(u)
		}
	})
	return u
}

// prepare makes all preparations of the spec, and reports whether they succeeded.
func (s *Session) prepare(ctx context.Context, u *startUp) bool {
	s.mu.Lock()
	spec, generation := s.spec, s.m.generation
	s.mu.Unlock()
	var notices []string
	var done int64 // by the preparations before
	for i, p := range spec.Preparations {
		if ctx.Err() != nil {
			return false // it was given up while it waited, so nobody wants its worker
		}
		last := i == len(spec.Preparations)-1
		made, end, err := s.preparations.join(ctx, p, s.o.StartTimeout, func(now workers.Progress) {
			s.tellPreparation(u, p.Name, now, done, last)
		})
		if err != nil {
			if ctx.Err() == nil { // else it was given up
				logNoStart(s.workerLog(generation), err)
			}
			s.notPrepared(u, err)
			return false
		}
		done += end
		spec = spec.WithResult(made)
		if made.Notice != "" {
			notices = append(notices, made.Notice)
		}
	}
	spec.Preparations = nil
	s.mu.Lock()
	defer s.unlock()
	if s.starting != u {
		return false
	}
	s.spec = spec
	s.m.prepared(max(done, 1), notices)
	return true
}

// maxMessage bounds how much of a preparation's message is recorded, in bytes.
const maxMessage = 256

// tellPreparation records the progress of a preparation. With several preparations, the total
// is known only during the last one.
func (s *Session) tellPreparation(u *startUp, what string, now workers.Progress, before int64, last bool) {
	p := timeline.Preparation{
		Name: what, Message: strings.ToValidUTF8(now.Message[:min(len(now.Message), maxMessage)], ""), Done: before + now.Done,
	}
	if last && now.Total > 0 {
		p.Total = max(before+now.Total, p.Done+1) // it is not over yet
	}
	s.mu.Lock()
	defer s.unlock()
	if s.starting == u {
		s.m.record(p)
	}
}

// notPrepared takes in that a preparation failed.
func (s *Session) notPrepared(u *startUp, cause error) {
	s.mu.Lock()
	defer s.unlock()
	if s.starting == u {
		s.failure = &session.Error{Kind: session.KindStart, Message: cause.Error(), Cause: cause}
		s.failedLocked(s.failure)
	}
}

// startProcess starts the worker's process.
func (s *Session) startProcess(u *startUp) {
	_ = s.acquire(context.Background())
	s.mu.Lock()
	if s.starting != u {
		s.mu.Unlock()
		s.release()
		return
	}
	spec, generation, size := s.spec, s.m.generation, s.o.Size
	s.early = nil
	s.mu.Unlock()
	var w *worker
	given, err := s.addKept(&spec)
	if err == nil {
		w, err = s.startWorker(spec, given, generation, size)
	}
	if err != nil {
		logNoStart(s.workerLog(generation), err)
	}
	s.mu.Lock()
	defer s.unlock()
	s.release() // before the waiters hear of it: one may close the session at once
	if err != nil {
		s.failedLocked(startError(s.Name(), err))
		return
	}
	s.worker = w
	w.begin()
	s.wg.Go(func() { s.keepCompiled(w, &spec) })
	s.startedLocked(nil)
}

// startedLocked tells the waiters the outcome of the start.
func (s *Session) startedLocked(err error) {
	u := s.starting
	s.starting = nil
	u.err = err
	close(u.done)
	u.stop(err)
}

// failedLocked takes in that there will be no process.
func (s *Session) failedLocked(err error) {
	reason, more, _ := strings.Cut(err.Error(), "\n")
	s.noProcessLocked(timeline.WorkerExited{Reason: reason, Message: more, ExitCode: -1, NeverReady: true}, err)
}

// giveUpLocked ends a start before there is a process; the caller holds lifecycle, so
// that none is just being started.
func (s *Session) giveUpLocked(why string, err error) {
	if s.starting != nil {
		s.givenUp = s.starting
		s.noProcessLocked(timeline.WorkerExited{Reason: why, ExitCode: -1, Clean: true}, err)
	}
}

func (s *Session) noProcessLocked(report timeline.WorkerExited, err error) {
	s.m.notLaunched(report)
	s.startedLocked(err)
}
