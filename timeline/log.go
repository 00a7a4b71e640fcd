package timeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
	"github.com/turnstone-repl/turnstone/timeline/internal/store"
)

// Options set the memory and file bounds and the directory of a Log.
type Options struct {
	// MemoryBytes bounds the events in memory; each counts 200 bytes more than its contents. The
	// newest event is kept whatever its size. 0 means 4 MiB.
	MemoryBytes int64
	// Dir is an existing private directory for the files "events" and "output.txt", which are
	// created empty. "" means memory only.
	Dir string
	// FileBytes bounds each of the two files. When one is full, both start over, and only the
	// events in memory remain of the old ones. 0 means 256 MiB.
	FileBytes int64
}

const (
	// The writer wakes at once when flushBytes are waiting to be written, and after flushDelay
	// when there are fewer.
	flushBytes = 256 << 10
	flushDelay = 100 * time.Millisecond

	// writerTimeout bounds how long Append waits for a writer that lags by MemoryBytes before it
	// turns the files off. It also bounds the waits of Sync and Close.
	writerTimeout = 2 * time.Second
)

// A Log is the ordered, bounded record of one session. All methods may be called
// from any goroutine.
type Log struct {
	opts Options

	timer      *time.Timer   // wakes the writer if nothing else does
	writerDone chan struct{} // closed when the writer has ended; nil without files

	mu             sync.Mutex
	memory         []store.Entry       // guarded by mu; the newest events, in order, without holes
	buffer         []store.Entry       // guarded by mu; memory is its tail
	usedBytes      int64               // guarded by mu; of memory
	end            store.EventPosition // guarded by mu; position of the next event
	lostEstimate   store.ByteEstimate  // guarded by mu; of lost events
	moreEvents     chan struct{}       // guarded by mu; closed by the next event; nil if no reader waits for it
	closed         bool                // guarded by mu
	wakeup         chan struct{}       // guarded by mu; capacity 1; wakes the writer, closed by Close, then nil
	files          fileState           // guarded by mu
	diskStart      store.EventPosition // guarded by mu; of the first event in the events file
	diskEnd        store.EventPosition // guarded by mu; after the last event there
	index          store.Index         // guarded by mu
	lineMarks      []store.LineMark    // guarded by mu
	outputLines    int                 // guarded by mu; in output.txt
	backlog        int64               // guarded by mu; bytes of memory that the writer has not written
	dueSeq         Seq                 // guarded by mu; events up to this one are written without waiting for more
	timerRunning   bool                // guarded by mu; timer is running
	writerProgress chan struct{}       // guarded by mu; closed when the writer has made progress; nil if no caller waits for it
	redactor       *textRedactor       // guarded by mu; nil until there is a secret to redact
	turnIndex      turnIndex           // guarded by mu
	blobs          store.BlobTable     // guarded by mu; of the events in memory and in the file
}

type fileState uint8

const (
	filesNone fileState = iota // memory only
	filesOpen                  // every event goes to the files
	filesFull                  // the files no longer change: an event would exceed their bound
	filesOff                   // turned off: the disk is full or slow
)

// New creates an empty Log. nil means all defaults.
func New(opts *Options) (*Log, error) {
	return newLog(opts, store.CreateFile)
}

func newLog(opts *Options, create store.CreateFunc) (*Log, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MemoryBytes < 0 || o.FileBytes < 0 {
		return nil, fmt.Errorf("timeline: negative bound: MemoryBytes %d, FileBytes %d", o.MemoryBytes, o.FileBytes)
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 4 << 20
	}
	if o.FileBytes == 0 {
		o.FileBytes = 256 << 20
	}
	origin := store.EventPosition{Seq: 1, LastStructural: -1}
	l := &Log{opts: o, end: origin, diskStart: origin, diskEnd: origin}
	if o.Dir == "" {
		return l, nil
	}
	s, err := store.NewFileWriter(o.Dir, o.FileBytes, create)
	if err != nil {
		return nil, err
	}
	l.files = filesOpen
	l.wakeup = make(chan struct{}, 1)
	l.timer = time.NewTimer(flushDelay)
	l.timer.Stop()
	l.writerDone = make(chan struct{})
	go l.runWriter(l.wakeup, s)
	return l, nil
}

// Append adds an event and returns it with its Seq, and its time if it had none. The log keeps
// references to the event's data: the caller must not change it afterwards.
//
// Append does no I/O. If the files lag behind by MemoryBytes, it waits for them, at most 2 s,
// then turns them off with a Notice.
//
// Secrets passed to AddSecret become "[secret]" first. The end of a Text that may begin a
// secret is held back until more text decides; if nothing else is left, Seq is 0.
func (l *Log) Append(e Event) Event {
	e.Body = sanitizeBody(e.Body)
	if d, ok := e.Body.(Display); ok {
		e.Body = event.WithDigests(d) // without the lock, since it takes time
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !event.IsStructural(e.Body) { // other events are small, and must be appended without waiting
		l.waitForRoomLocked(event.MemoryBytes(e.Body))
	}
	if l.redactor == nil {
		return l.appendLocked(e)
	}
	t, isText := e.Body.(Text)
	if !isText {
		if event.EndsText(e.Body) {
			l.appendPendingLocked(l.redactor.Flush)
		}
		e.Body = event.RedactBody(&l.redactor.SecretSet, e.Body)
		return l.appendLocked(e)
	}
	if last, ok := l.redactor.lastText.Body.(Text); ok && (last.Stream != t.Stream || last.Kind != t.Kind || t.Begins) {
		l.appendPendingLocked(l.redactor.Flush)
	}
	t.Begins = t.Begins || l.redactor.hasHeldBegin()
	if t.Data = l.redactor.Write(t.Data); len(t.Data) == 0 {
		l.redactor.setLastText(e, t)
		return e
	}
	e.Body = t
	t.Begins = false
	l.redactor.setLastText(e, t)
	return l.appendLocked(e)
}

// appendPendingLocked appends the text that get takes from the held-back tail.
func (l *Log) appendPendingLocked(get func() []byte) {
	if l.redactor == nil || !l.redactor.HasPending() {
		return
	}
	e := l.redactor.lastText
	if t := e.Body.(Text); !l.closed {
		if t.Data = get(); len(t.Data) > 0 {
			e.Body = t
			t.Begins = false
			l.redactor.setLastText(e, t)
			l.appendLocked(e)
		}
	}
}

// AddSecret replaces a secret by "[secret]" in everything that is appended from now on. It
// finds each line of the secret, even in pieces, and also in the forms in which text usually
// reappears: quoted, in JSON, URLs, HTML and base64. A Log only redacts lines of 6 bytes to 4
// KiB, 16 KiB in all; an error means that some are not redacted.
func (l *Log) AddSecret(secret string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.redactor == nil {
		l.redactor = &textRedactor{}
	}
	return l.redactor.Add(secret)
}

// Redact returns a text with its secrets redacted, as the log would record it.
func (l *Log) Redact(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.redactor == nil {
		return text
	}
	return l.redactor.Redact(text)
}

// sanitizeBody removes everything from a body that must not be in a log.
func sanitizeBody(body Body) Body {
	switch b := body.(type) {
	case InputLine:
		if b.Secret {
			b.Text = ""
		}
		return b
	case TurnStarted:
		if len(b.Input) > MaxInputBytes {
			b.InputBytes = max(b.InputBytes, len(b.Input))
			b.Input = slices.Clone(b.Input[:MaxInputBytes])
		}
		return b
	case nil, Gap, Omitted:
		panic(fmt.Sprintf("timeline: %T cannot be appended: only readers make it", body))
	}
	return body
}

func (l *Log) appendLocked(e Event) Event {
	e.Seq, e.Line = l.end.Seq, 0
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if d, ok := e.Body.(Display); ok {
		e.Body = l.blobs.AddBlobs(d)
	}
	size := event.MemoryBytes(e.Body)
	l.growLocked()
	l.memory = append(l.memory, store.Entry{Event: e, Position: l.end})
	l.usedBytes += size
	l.end = l.end.AfterEvent(e, 0)
	l.turnIndex.addEvent(e)
	if l.writingLocked() {
		l.backlog += size
		switch {
		case l.backlog >= l.flushThreshold():
			l.wakeWriter()
		case !l.timerRunning:
			l.timerRunning = true
			l.timer.Reset(flushDelay)
		}
	}
	l.evictLocked()
	if l.moreEvents != nil {
		close(l.moreEvents)
		l.moreEvents = nil
	}
	return e
}

// writingLocked reports whether events are still written to the files.
func (l *Log) writingLocked() bool { return l.files == filesOpen && !l.closed }

func (l *Log) flushThreshold() int64 { return min(flushBytes, l.opts.MemoryBytes/4) }

// evictLocked drops the oldest events beyond the bound, except those that the
// writer has yet to write.
func (l *Log) evictLocked() {
	n := 0
	for ; l.usedBytes > l.opts.MemoryBytes && n < len(l.memory)-1; n++ {
		e := &l.memory[n]
		if e.Seq >= l.diskEnd.Seq {
			if l.writingLocked() {
				break
			}
			l.lostEstimate.AddPosition(e.Position)
		}
		l.usedBytes -= event.MemoryBytes(e.Body)
		l.blobs.DropBlobs(e.Body)
		*e = store.Entry{}
	}
	l.memory = l.memory[n:]
}

// growLocked makes room for one more entry. It reuses the space of dropped entries if they
// occupy half of the buffer.
func (l *Log) growLocked() {
	n := len(l.memory)
	if n < cap(l.memory) {
		return
	}
	if store := l.buffer[:cap(l.buffer)]; len(store)-n >= n && n > 0 {
		copy(store, l.memory)
		clear(store[n:])
		l.memory = store[:n]
		return
	}
	l.memory = slices.Grow(l.memory, max(n, 8))
	l.buffer = l.memory
}

// waitForRoomLocked waits until size more bytes fit next to the events that are not written
// yet. It releases mu while it waits.
func (l *Log) waitForRoomLocked(size int64) {
	var patience *time.Timer
	for l.writingLocked() && l.backlog > 0 && l.backlog+size > l.opts.MemoryBytes {
		if patience == nil {
			patience = time.NewTimer(writerTimeout)
			defer patience.Stop()
		}
		progress := waitChannel(&l.writerProgress)
		l.mu.Unlock()
		expired := false
		select {
		case <-progress:
		case <-patience.C:
			expired = true
		}
		l.mu.Lock()
		if expired && l.writingLocked() {
			l.disableFilesLocked(fmt.Errorf("nothing was written for %v", writerTimeout))
		}
	}
}

// waitChannel returns the channel in *c, and creates it for the first waiter.
func waitChannel(c *chan struct{}) <-chan struct{} {
	if *c == nil {
		*c = make(chan struct{})
	}
	return *c
}

// disableFilesLocked turns the files off, with one notice.
func (l *Log) disableFilesLocked(why error) {
	l.files = filesOff
	l.clearBacklogLocked()
	e := Event{Body: Notice{Message: fmt.Sprintf("output is no longer saved to files: %v", why)}}
	if n := len(l.memory); n > 0 {
		last := l.memory[n-1]
		e.Generation, e.Turn, e.BetweenTurns = last.Generation, last.Turn, last.BetweenTurns
	}
	l.appendLocked(e)
}

// clearBacklogLocked drops all pending work of the writer.
func (l *Log) clearBacklogLocked() {
	l.backlog, l.timerRunning = 0, false
	l.timer.Stop()
	l.writerProgressLocked()
}

// writerProgressLocked wakes all goroutines that wait for the writer.
func (l *Log) writerProgressLocked() {
	if l.writerProgress != nil {
		close(l.writerProgress)
		l.writerProgress = nil
	}
}

func (l *Log) wakeWriter() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// LastSeq returns the Seq of the newest event, 0 if there is none.
func (l *Log) LastSeq() Seq {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end.Seq - 1
}

// NotifyAfter returns a channel that is closed once there is an event after the cursor. It is
// nil if no more events will come, because the log is closed.
func (l *Log) NotifyAfter(after Seq) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case after+1 < l.end.Seq:
		there := make(chan struct{})
		close(there)
		return there
	case l.closed:
		return nil
	}
	return waitChannel(&l.moreEvents)
}

// appendPending appends the held-back text, for a reader that reads now.
func (l *Log) appendPending() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.redactor != nil {
		l.appendPendingLocked(l.redactor.TakePending)
	}
}

// EventsSince returns the events in memory after the cursor. If older ones are missing, the
// first event is a Gap, even if they are on disk.
func (l *Log) EventsSince(after Seq) []Event {
	l.appendPending()
	v := l.takeSnapshot(after, 0)
	v.forgetDisk()
	return v.allEvents()
}

// maxFollowBatch bounds how many events a follower takes from memory at once.
const maxFollowBatch = 256

// Follow yields the events after the cursor, first past ones and then new ones as they arrive,
// each once and in order. It ends when ctx ends, or after the last event of a closed log.
//
// The log never waits for a reader. When events have left memory, a slow reader gets them from the
// events file. If they are not there either, it gets a Gap. The Seq of the Gap is the Seq of the
// last missing event.
func (l *Log) Follow(ctx context.Context, after Seq) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for ctx.Err() == nil {
			v := l.takeSnapshot(after, maxFollowBatch)
			if v.isEmpty() {
				if v.moreEvents == nil {
					return
				}
				select {
				case <-v.moreEvents:
				case <-ctx.Done():
				}
				continue
			}
			for e := range v.entriesFrom(after + 1) {
				if ctx.Err() != nil || !yield(e.Event) {
					return
				}
				after = e.Seq
			}
		}
	}
}

// Sync waits until everything appended so far is in the files, at most 2 s.
func (l *Log) Sync() { l.syncWithin(writerTimeout) }

func (l *Log) syncWithin(patience time.Duration) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.end.Seq - 1
	for l.writingLocked() && l.diskEnd.Seq <= last {
		l.dueSeq = max(l.dueSeq, last)
		l.wakeWriter()
		progress := waitChannel(&l.writerProgress)
		l.mu.Unlock()
		select {
		case <-progress:
			l.mu.Lock()
		case <-timeout.C:
			l.mu.Lock()
			return
		}
	}
}

// OutputPath returns the path of the file that holds the text as lines; "" if there is none, or
// if it was turned off because the disk was full.
func (l *Log) OutputPath() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outputPathLocked()
}

func (l *Log) outputPathLocked() string {
	if l.files == filesOpen || l.files == filesFull {
		return filepath.Join(l.opts.Dir, OutputName)
	}
	return ""
}

// Close writes the remaining events and stops the writer, for which it waits at most 2 s.
// Followers end once they have read everything. The files remain readable. Events that are
// appended later are kept in memory.
func (l *Log) Close() error {
	l.mu.Lock()
	if !l.closed {
		if l.redactor != nil {
			l.appendPendingLocked(l.redactor.Flush)
		}
		l.closed = true
		l.dueSeq = l.end.Seq - 1
		if l.moreEvents != nil {
			close(l.moreEvents)
			l.moreEvents = nil
		}
		if l.wakeup != nil {
			close(l.wakeup)
			l.wakeup = nil
		}
	}
	l.mu.Unlock()
	if l.writerDone == nil {
		return nil
	}
	timeout := time.NewTimer(writerTimeout)
	defer timeout.Stop()
	select {
	case <-l.writerDone:
		return nil
	case <-timeout.C:
		return errors.New("timeline: the writer did not stop: the disk does not respond")
	}
}
