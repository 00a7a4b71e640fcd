package reply

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestHeartbeat(t *testing.T) {
	t.Run("beats after one second and then every five", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := NewHeartbeat(true)
			start := time.Now()
			var beats []time.Duration
			for deadline := start.Add(12 * time.Second); time.Now().Before(deadline); {
				time.Sleep(time.Until(b.NextCheck(deadline)))
				if elapsed, due := b.BeatIfDue(); due {
					beats = append(beats, elapsed)
				}
			}
			want := []time.Duration{1 * time.Second, 6 * time.Second, 11 * time.Second}
			if len(beats) != len(want) {
				t.Fatalf("got %v, want %v", beats, want)
			}
			for i := range want {
				if beats[i] != want[i] {
					t.Errorf("got %v, want %v", beats, want)
				}
			}
		})
	})

	t.Run("skips a beat right before the deadline", func(t *testing.T) {
		b := NewHeartbeat(true)
		for _, d := range []time.Duration{500 * time.Millisecond, time.Second, time.Second + minAnswerDelay} {
			deadline := b.start.Add(d)
			if got := b.NextCheck(deadline); !got.Equal(deadline) {
				t.Errorf("deadline after %s: got a beat after %s", d, got.Sub(b.start))
			}
		}
	})

	t.Run("never beats when disabled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := NewHeartbeat(false)
			deadline := time.Now().Add(time.Minute)
			if got := b.NextCheck(deadline); !got.Equal(deadline) {
				t.Errorf("got %s", got)
			}
			time.Sleep(30 * time.Second)
			if _, due := b.BeatIfDue(); due {
				t.Error("it beats")
			}
		})
	})

	t.Run("delays an answer only right after a beat", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := NewHeartbeat(true)
			waited := func() time.Duration {
				start := time.Now()
				if !b.WaitQuiet(t.Context()) {
					t.Error("waitQuiet gave up")
				}
				return time.Since(start)
			}
			if got := waited(); got != 0 {
				t.Errorf("without a beat: waited for %s", got)
			}
			time.Sleep(time.Second)
			b.BeatIfDue()
			time.Sleep(40 * time.Millisecond)
			if got := waited(); got != 60*time.Millisecond {
				t.Errorf("40 ms after a beat: waited for %s, want 60ms", got)
			}
			if got := waited(); got != 0 {
				t.Errorf("100 ms after a beat: waited for %s", got)
			}
			time.Sleep(5 * time.Second)
			b.BeatIfDue()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if b.WaitQuiet(ctx) {
				t.Error("waitQuiet ignores the end of the call")
			}
		})
	})
}
