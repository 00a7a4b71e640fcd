package session

import (
	"context"

	"github.com/turnstone-repl/turnstone/timeline"
)

// FollowPreparation calls tell, unless it is nil, for each step of the preparation of s. It returns
// when the preparation is over. now is an earlier description of the session. The error does not say
// whether the preparation succeeded: Submit returns its failure.
func FollowPreparation(ctx context.Context, s Session, now Info, tell func(timeline.Preparation)) error {
	if now.State != StatePreparing {
		return nil
	}
	for e, err := range s.Events(ctx, 0) {
		if err != nil {
			return err
		}
		switch b := e.Body.(type) {
		case timeline.Preparation:
			if e.Generation < now.Generation {
				continue
			}
			if b.IsDone() {
				return nil
			}
			if tell != nil {
				tell(b)
			}
		case timeline.WorkerExited:
			if e.Generation >= now.Generation {
				return nil
			}
		}
	}
	return nil
}
