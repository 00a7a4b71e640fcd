package launch_test

import (
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
)

type terminalReader struct{ p *launch.WorkerProcess }

func (r terminalReader) Read(b []byte) (n int, err error) {
	closed := r.p.Terminal().AwaitOutput(func() bool {
		n, err = r.p.Terminal().TryRead(b)
		return n > 0 || err != nil
	})
	if closed != nil {
		return 0, closed
	}
	return n, err
}

// testTimeout is the only deadline of these tests; no condition takes this long.
const testTimeout = 60 * time.Second

func waitClosed(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		t.Fatalf("got no %s within %s", what, testTimeout)
	}
}

// workerOutput collects what a worker shows on its terminal.
type workerOutput struct {
	mu    sync.Mutex
	text  []byte        // guarded by mu
	more  chan struct{} // replaced when text grew; guarded by mu
	ended chan struct{} // closed at end of file
}

func collectOutput(r io.Reader) *workerOutput {
	o := &workerOutput{more: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(o.ended)
		b := make([]byte, 4096)
		for {
			n, err := r.Read(b)
			o.mu.Lock()
			o.text = append(o.text, b[:n]...)
			close(o.more)
			o.more = make(chan struct{})
			o.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return o
}

func (o *workerOutput) snapshot() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return plainText(string(o.text)), o.more
}

// waitLine waits for a whole line that starts with prefix and returns its rest.
func (o *workerOutput) waitLine(t testing.TB, prefix string) string {
	t.Helper()
	limit := time.After(testTimeout)
	for {
		text, more := o.snapshot()
		for l := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(l, prefix); ok && strings.HasSuffix(l, "\n") {
				return strings.TrimSpace(rest)
			}
		}
		select {
		case <-more:
		case <-o.ended:
			if again, _ := o.snapshot(); again == text {
				t.Fatalf("got end of file and %q, want a line %q", text, prefix+"…")
			}
		case <-limit:
			t.Fatalf("got %q within %s, want a line %q", text, testTimeout, prefix+"…")
		}
	}
}

func (o *workerOutput) waitAll(t testing.TB) string {
	t.Helper()
	waitClosed(t, "end of file on the terminal", o.ended)
	text, _ := o.snapshot()
	return text
}

// A testWorker is a started process together with its terminal output.
type testWorker struct {
	*launch.WorkerProcess
	*workerOutput
}

func startCommand(t testing.TB, c *launch.StartConfig) testWorker {
	t.Helper()
	if c.Env == nil {
		c.Env = os.Environ()
	}
	p, err := launch.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	w := testWorker{p, collectOutput(terminalReader{p})}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if r := p.Survivors(); len(r) > 0 {
			t.Errorf("got remaining processes %v, want none", r)
		}
	})
	return w
}
