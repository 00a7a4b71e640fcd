package supervisor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
)

func TestPreparationGroup(t *testing.T) {
	t.Run("prepares once for all waiters of a key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var all preparationGroup
			var runs atomic.Int64
			w := workers.Preparation{Key: "k", Run: func(_ context.Context, report func(workers.PreparationProgress)) (workers.PreparationResult, error) {
				runs.Add(1)
				time.Sleep(time.Second)
				report(workers.PreparationProgress{Done: 7, Message: "on the way"})
				time.Sleep(time.Second)
				return workers.PreparationResult{Env: []string{"A=1"}}, nil
			}}
			var waiting sync.WaitGroup
			for i := range 5 {
				waiting.Go(func() {
					time.Sleep(time.Duration(i) * 400 * time.Millisecond)
					first := true
					result, done, err := all.awaitPreparation(t.Context(), w, time.Minute, func(p workers.PreparationProgress) {
						if late := i > 2; first && (p.Message != "") != late {
							t.Errorf("caller %d started with %q", i, p.Message)
						}
						first = false
					})
					if err != nil || done != 7 || len(result.Env) != 1 {
						t.Errorf("got %v, %d, %v", result, done, err)
					}
				})
			}
			waiting.Wait()
			if n := runs.Load(); n != 1 {
				t.Errorf("the preparation ran %d times", n)
			}
			if _, _, err := all.awaitPreparation(t.Context(), w, time.Minute, func(workers.PreparationProgress) {}); err != nil || runs.Load() != 2 {
				t.Errorf("the next caller: %v, after %d runs", err, runs.Load())
			}
		})
	})

	t.Run("ends with the last waiter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var all preparationGroup
			ended := make(chan error, 2)
			w := workers.Preparation{Key: "k", Run: func(ctx context.Context, _ func(workers.PreparationProgress)) (workers.PreparationResult, error) {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return workers.PreparationResult{}, ctx.Err()
			}}
			gone := errors.New("gone")
			var leave []context.CancelCauseFunc
			result := make(chan error)
			for range 2 {
				ctx, cancel := context.WithCancelCause(t.Context())
				leave = append(leave, cancel)
				go func() {
					_, _, err := all.awaitPreparation(ctx, w, time.Hour, func(workers.PreparationProgress) {})
					result <- err
				}()
			}
			synctest.Wait()
			leave[0](gone)
			if err := <-result; err != gone || len(ended) != 0 {
				t.Errorf("got %v, and the work ended %d times", err, len(ended))
			}
			leave[1](gone)
			if err := <-result; err != gone {
				t.Errorf("got %v", err)
			}
			if err := <-ended; err != errNoWaiters {
				t.Errorf("the work ended with %v", err)
			}
		})
	})

	// Run should return when its context ends. If it does not, the waiters still return.
	t.Run("does not wait long for work that ignores its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var all preparationGroup
			over := make(chan struct{})
			w := workers.Preparation{Key: "k", Run: func(context.Context, func(workers.PreparationProgress)) (workers.PreparationResult, error) {
				<-over
				return workers.PreparationResult{}, nil
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			if _, _, err := all.awaitPreparation(ctx, w, time.Hour, func(workers.PreparationProgress) {}); err == nil || time.Since(start) != time.Second+abandonTimeout {
				t.Errorf("got %v after %s", err, time.Since(start))
			}
			close(over)
		})
	})

	t.Run("limits the reports and delivers the newest", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var all preparationGroup
			w := workers.Preparation{Key: "k", Run: func(_ context.Context, report func(workers.PreparationProgress)) (workers.PreparationResult, error) {
				for i := range int64(10_000) {
					report(workers.PreparationProgress{Done: i + 1})
					time.Sleep(100 * time.Microsecond)
				}
				time.Sleep(time.Minute)
				return workers.PreparationResult{}, nil
			}}
			var got []int64
			if _, _, err := all.awaitPreparation(t.Context(), w, time.Hour, func(p workers.PreparationProgress) { got = append(got, p.Done) }); err != nil {
				t.Fatal(err)
			}
			if len(got) > 6 || got[len(got)-1] != 10_000 {
				t.Errorf("got %v", got)
			}
		})
	})
}
