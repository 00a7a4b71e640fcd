package transportcmd

import (
	"io"
	"strings"
	"sync"
)

// maxStderrBytes bounds the stored end of the standard error of a command, in bytes.
const maxStderrBytes = 4 << 10

// A tailBuffer stores the end of the written bytes. Until stopPassing is called, it also copies all
// bytes to passTo.
type tailBuffer struct {
	mu        sync.Mutex
	text      []byte    // guarded by mu
	truncated bool      // guarded by mu; bytes before text were dropped
	passTo    io.Writer // guarded by mu
}

func (t *tailBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-maxStderrBytes):]...)
	if extra := len(t.text) - maxStderrBytes; extra > 0 {
		t.text, t.truncated = append(t.text[:0], t.text[extra:]...), true
	}
	if t.passTo != nil {
		_, _ = t.passTo.Write(b)
	}
	return len(b), nil
}

func (t *tailBuffer) stopPassing() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passTo = nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.text)
	if t.truncated {
		if _, rest, ok := strings.Cut(text, "\n"); ok {
			text = rest
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, "?"))
}
