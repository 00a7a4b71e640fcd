package host_test

import (
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
)

type terminalReader struct{ p *host.Process }

func (r terminalReader) Read(b []byte) (n int, err error) {
	closed := r.p.Terminal().Await(func() bool {
		n, err = r.p.Terminal().TryRead(b)
		return n > 0 || err != nil
	})
	if closed != nil {
		return 0, closed
	}
	return n, err
}

// patience is the one deadline of these tests: no fact takes this long.
const patience = 60 * time.Second

// eventually waits for a fact that nothing announces.
func eventually(t testing.TB, what string, fact func() bool) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !fact() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("got no %s within %s", what, patience)
		}
	}
}

func within(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("got no %s within %s", what, patience)
	}
}

// output collects what a worker shows on its terminal.
type output struct {
	mu   sync.Mutex
	text []byte        // guarded by mu
	more chan struct{} // replaced when text grew; guarded by mu
	end  chan struct{} // closed at end of file
}

func collect(r io.Reader) *output {
	o := &output{more: make(chan struct{}), end: make(chan struct{})}
	go func() {
		defer close(o.end)
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

func (o *output) now() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return shown(string(o.text)), o.more
}

// line waits for a whole line that begins with prefix and returns its rest.
func (o *output) line(t testing.TB, prefix string) string {
	t.Helper()
	limit := time.After(patience)
	for {
		text, more := o.now()
		for l := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(l, prefix); ok && strings.HasSuffix(l, "\n") {
				return strings.TrimSpace(rest)
			}
		}
		select {
		case <-more:
		case <-o.end:
			if again, _ := o.now(); again == text {
				t.Fatalf("got end of file and %q, want a line %q", text, prefix+"…")
			}
		case <-limit:
			t.Fatalf("got %q within %s, want a line %q", text, patience, prefix+"…")
		}
	}
}

func (o *output) all(t testing.TB) string {
	t.Helper()
	within(t, "end of file on the terminal", o.end)
	text, _ := o.now()
	return text
}

// worker is a started process with its output.
type worker struct {
	*host.Process
	*output
}

func startCommand(t testing.TB, c *host.Command) worker {
	t.Helper()
	if c.Env == nil {
		c.Env = os.Environ()
	}
	p, err := host.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	w := worker{p, collect(terminalReader{p})}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if r := p.Remains(); len(r) > 0 {
			t.Errorf("got remaining processes %v, want none", r)
		}
	})
	return w
}
