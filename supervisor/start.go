package supervisor

import (
	"context"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// WaitPrepared waits while the session is being prepared. It returns why preparation failed, or
// ctx's error.
func (s *Session) WaitPrepared(ctx context.Context) error {
	defer s.beginUse()()
	for {
		s.mu.Lock()
		attempt, preparing, err := s.currentStart, s.m.phase == phasePreparing, s.preparationError
		changed := s.changedLocked()
		s.mu.Unlock()
		if !preparing {
			return err
		}
		select {
		case <-attempt.done:
			if attempt.err != nil {
				return attempt.err
			}
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// PreparationError returns why the session could not be prepared; nil if it was prepared or is
// being prepared.
func (s *Session) PreparationError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.preparationError
}

// startLocked starts an attempt. There must be no worker and no other attempt.
func (s *Session) startLocked() *startAttempt {
	ctx, stop := context.WithCancelCause(context.Background())
	attempt := &startAttempt{giveUp: stop, done: make(chan struct{}), finished: make(chan struct{})}
	previous := s.abandonedStart
	s.currentStart, s.preparationError = attempt, nil
	prepare := len(s.spec.Preparations) > 0
	s.m.startGeneration(s.spec.Name+" "+s.spec.Path, prepare)
	if s.m.generation == 1 && s.crashedBefore != nil {
		s.m.recordNotice("%s", s.crashedBefore.noticeText(s.o.RecoverCommand))
	}
	s.starts.Go(func() {
		defer close(attempt.finished)
		if previous != nil {
			<-previous.finished // otherwise this one would join the abandoned preparation
		}
		if !prepare || s.prepareSpec(ctx, attempt) {
			s.startProcess(attempt)
		}
	})
	return attempt
}

// prepareSpec runs all preparations of the spec and reports whether they succeeded.
func (s *Session) prepareSpec(ctx context.Context, attempt *startAttempt) bool {
	s.mu.Lock()
	spec, generation := s.spec, s.m.generation
	s.mu.Unlock()
	var notices []string
	var done int64 // by the previous preparations
	for i, p := range spec.Preparations {
		if ctx.Err() != nil {
			return false // abandoned while it waited, so its worker is not needed
		}
		last := i == len(spec.Preparations)-1
		result, doneHere, err := s.preparations.awaitPreparation(ctx, p, s.o.StartTimeout, func(now workers.PreparationProgress) {
			s.recordPreparation(attempt, p.Name, now, done, last)
		})
		if err != nil {
			if ctx.Err() == nil { // otherwise it was abandoned
				logStartFailure(s.workerLog(generation), err)
			}
			s.handlePreparationFailure(attempt, err)
			return false
		}
		done += doneHere
		spec = spec.WithResult(result)
		if result.Notice != "" {
			notices = append(notices, result.Notice)
		}
	}
	spec.Preparations = nil
	s.mu.Lock()
	defer s.unlock()
	if s.currentStart != attempt {
		return false
	}
	s.spec = spec
	s.m.handlePrepared(max(done, 1), notices)
	return true
}

// maxMessageBytes bounds how much of a preparation's message is recorded, in bytes.
const maxMessageBytes = 256

// recordPreparation records the progress of a preparation. With several preparations, the total is
// known only during the last one.
func (s *Session) recordPreparation(attempt *startAttempt, name string, now workers.PreparationProgress, doneBefore int64, last bool) {
	p := timeline.Preparation{
		Name: name, Message: text.Truncate(now.Message, maxMessageBytes), Done: doneBefore + now.Done,
	}
	if last && now.Total > 0 {
		p.Total = max(doneBefore+now.Total, p.Done+1) // it has not finished yet
	}
	s.mu.Lock()
	defer s.unlock()
	if s.currentStart == attempt {
		s.m.recordEvent(p)
	}
}

// handlePreparationFailure records that a preparation failed and ends the start.
func (s *Session) handlePreparationFailure(attempt *startAttempt, cause error) {
	s.mu.Lock()
	defer s.unlock()
	if s.currentStart == attempt {
		s.preparationError = &session.Error{Kind: session.KindStart, Message: cause.Error(), Cause: cause}
		s.failStartLocked(s.preparationError)
	}
}

// startProcess starts the worker's process.
func (s *Session) startProcess(attempt *startAttempt) {
	_ = s.acquireLifecycle(context.Background())
	s.mu.Lock()
	if s.currentStart != attempt {
		s.mu.Unlock()
		s.releaseLifecycle()
		return
	}
	spec, generation, size := s.spec, s.m.generation, s.o.Size
	s.earlyDenials = nil
	s.mu.Unlock()
	var w *worker
	grants, err := s.addSavedGrants(&spec)
	if err == nil {
		w, err = s.startWorker(spec, grants, generation, size)
	}
	if err != nil {
		logStartFailure(s.workerLog(generation), err)
	}
	s.mu.Lock()
	defer s.unlock()
	s.releaseLifecycle() // before the waiters wake up: one may close the session at once
	if err != nil {
		s.failStartLocked(startError(s.Name(), err))
		return
	}
	s.worker = w
	w.startGoroutines()
	s.wg.Go(func() { s.cacheCompiledCode(w, &spec) })
	s.finishStartLocked(nil)
}

// finishStartLocked reports the outcome of the start to its waiters.
func (s *Session) finishStartLocked(err error) {
	attempt := s.currentStart
	s.currentStart = nil
	attempt.err = err
	close(attempt.done)
	attempt.giveUp(err)
}

// failStartLocked records that the start failed without a process.
func (s *Session) failStartLocked(err error) {
	reason, more, _ := strings.Cut(err.Error(), "\n")
	s.endStartLocked(timeline.WorkerExited{Reason: reason, Message: more, ExitCode: -1, NeverReady: true}, err)
}

// abandonStartLocked ends a start before there is a process. The caller holds lifecycle, so no
// process is being started at the same time.
func (s *Session) abandonStartLocked(why string, err error) {
	if s.currentStart != nil {
		s.abandonedStart = s.currentStart
		s.endStartLocked(timeline.WorkerExited{Reason: why, ExitCode: -1, Clean: true}, err)
	}
}

func (s *Session) endStartLocked(report timeline.WorkerExited, err error) {
	s.m.handleNoProcess(report)
	s.finishStartLocked(err)
}
