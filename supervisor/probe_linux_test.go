package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// New output is noticed at once, even if a turn was silent for an hour. A reader without output is
// found at the next scan.
func TestReaderScan_AfterLongSilence(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code string        // runs after the silence
		next time.Duration // until the next scan, if nothing wakes it
	}{
		"a child that prompts":                              {"sh printf 'name? '; exec head -n1", time.Hour},
		"a runtime that says something, and then its child": {"print up\nreadtty", time.Hour},
		"a child that only reads":                           {"readtty", maxSilentScanInterval},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			sup, err := New(&Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = sup.Close() })
			self := testexec.OwnPath()
			s, err := sup.Open(t.Context(), "main", fakeworker.NewSpec(self, nil))
			if err != nil {
				t.Fatal(err)
			}
			gate := filepath.Join(t.TempDir(), "gate") // a session in a sandbox does not see dir
			if err := syscall.Mkfifo(gate, 0o600); err != nil {
				t.Fatal(err)
			}
			turn, err := s.Submit(t.Context(), "sh read x <"+gate+"\n"+test.code)
			if err != nil {
				t.Fatal(err)
			}
			open, err := os.OpenFile(gate, os.O_WRONLY, 0) // returns once the turn reads it
			if err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			w := s.worker
			if w.readerTimer == nil {
				s.mu.Unlock()
				t.Skip("needs /proc/<pid>/syscall")
			}
			w.lastOutput.Store(time.Now().Add(-time.Hour).UnixNano())
			w.scanInterval = maxSilentScanInterval
			w.scansSlowly.Store(true)
			w.scheduleScanLocked(test.next)
			s.mu.Unlock()
			_ = open.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := s.Wait(ctx, turn, nil)
			if err != nil || r.InputRequest == nil || !r.InputRequest.Terminal {
				t.Errorf("got %+v, %v, want an input request of a terminal reader", r, err)
			}
		})
	}
}
