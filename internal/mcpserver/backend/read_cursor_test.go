package backend

import (
	"slices"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/timeline"
)

func TestReadCursorSaver(t *testing.T) {
	t.Parallel()

	t.Run("waits for nothing that has not moved", func(t *testing.T) {
		t.Parallel()
		s := &readCursorSaver{save: func(timeline.Seq) { t.Error("saved") }}
		s.waitSaved(time.Minute)
	})

	t.Run("saves the last position only, while a daemon is stuck", func(t *testing.T) {
		t.Parallel()
		var saved []timeline.Seq
		began, stuck := make(chan struct{}, 2), make(chan struct{})
		s := &readCursorSaver{save: func(seq timeline.Seq) {
			began <- struct{}{}
			<-stuck
			saved = append(saved, seq)
		}}
		s.saveAt(1)
		<-began
		s.saveAt(2)
		s.saveAt(3)
		s.waitSaved(time.Millisecond) // does not wait for the daemon
		close(stuck)
		s.waitSaved(time.Minute)
		if want := []timeline.Seq{1, 3}; !slices.Equal(saved, want) {
			t.Errorf("saved %d, want %d", saved, want)
		}
	})
}
