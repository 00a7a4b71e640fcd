package console

import (
	"errors"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestAnswer(t *testing.T) {
	t.Parallel()
	t.Run("a request that ends before its answer asks for nothing", func(t *testing.T) {
		t.Parallel()
		for _, ended := range [][]timeline.Seq{{7}, {7, 8}, {6, 7}, {1, 2, 3, 4, 5, 6, 7, 8, 9}} {
			e := &lineEditor{}
			for _, id := range ended {
				e.cancelRequest(id)
			}
			if _, err := e.editAnswer(session.InputRequest{ID: 7}, "quick? "); !errors.Is(err, errCancelled) {
				t.Errorf("%v have ended: got %v, want %v", ended, err, errCancelled)
			}
		}
	})
}
