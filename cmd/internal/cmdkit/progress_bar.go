package cmdkit

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/internal/text"
)

const (
	barCells    = 20
	barInterval = 250 * time.Millisecond

	// barIdleTimeout bounds how long the bar is shown without an update, because its job may have
	// ended silently.
	barIdleTimeout = 30 * time.Second
)

// A ProgressBar shows progress on a terminal, in one line that is removed at the end. If the output
// is not a terminal, it shows nothing. It is safe for concurrent use.
type ProgressBar struct {
	out       *os.File // nil if nothing is shown
	startedAt time.Time
	stop      chan struct{}
	wg        sync.WaitGroup

	mu          sync.Mutex
	title       string    // guarded by mu
	done, total int64     // guarded by mu
	message     string    // guarded by mu
	updatedAt   time.Time // guarded by mu: the time of the last update; zero: nothing to show
	visible     bool      // guarded by mu: a line must be removed
}

// NewProgressBar returns a bar that draws on w. If w is a terminal, it starts one goroutine, which
// ends with Close.
func NewProgressBar(w io.Writer) *ProgressBar {
	b := &ProgressBar{startedAt: time.Now(), stop: make(chan struct{})}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return b
	}
	b.out = f
	b.wg.Go(func() {
		beat := time.NewTicker(barInterval)
		defer beat.Stop()
		for {
			select {
			case <-beat.C:
				b.drawLine()
			case <-b.stop:
				return
			}
		}
	})
	return b
}

// SetProgress updates the bar. total is 0 while it is unknown.
func (b *ProgressBar) SetProgress(title string, done, total int64, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.title, b.done, b.total, b.message, b.updatedAt = title, done, total, message, time.Now()
}

// hideLine removes the line until the next update.
func (b *ProgressBar) hideLine() {
	b.mu.Lock()
	b.updatedAt = time.Time{}
	b.mu.Unlock()
	b.drawLine()
}

// Close removes the line for good.
func (b *ProgressBar) Close() {
	close(b.stop)
	b.wg.Wait()
	b.hideLine()
}

func (b *ProgressBar) drawLine() {
	if b.out == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.updatedAt.IsZero() || time.Since(b.updatedAt) > barIdleTimeout {
		if b.visible {
			fmt.Fprint(b.out, "\r\x1b[K")
		}
		b.visible = false
		return
	}
	width, _, err := term.GetSize(int(b.out.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	fmt.Fprint(b.out, "\r"+barLine(b.title, b.done, b.total, b.message, time.Since(b.startedAt), width-1)+"\x1b[K")
	b.visible = true
}

// barLine returns the line of a bar, at most width characters long.
func barLine(title string, done, total int64, message string, since time.Duration, width int) string {
	line := title
	if total > 0 {
		full := int(min(max(done, 0), total) * barCells / total)
		line += " [" + strings.Repeat("#", full) + strings.Repeat("-", barCells-full) + "]"
	}
	line += fmt.Sprintf(" %.0f s", since.Seconds())
	if message != "" && message != title {
		line += ": " + message
	}
	return text.Fit(line, width)
}
