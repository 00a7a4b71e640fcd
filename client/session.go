package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// shortCall bounds ending a subscription whose reader has gone.
	shortCall = 5 * time.Second

	// longPoll bounds the wait of one call. A longer wait takes several calls.
	longPoll = time.Hour

	// leastPoll is the least time between two of them, whatever the daemon does.
	leastPoll = 100 * time.Millisecond
)

// A Session is one of a daemon's. It has no state of its own but its name and its
// author's. An error is of KindUnreachable when the daemon is gone.
type Session struct {
	client *Client
	name   string
	author string
	note   *note

	keyboard bool // turns that it starts come with the keyboard
}

var (
	_ session.Session     = (*Session)(nil)
	_ session.TurnStarter = (*Session)(nil)
)

// Session is the session of that name, over this connection. Nothing is asked before
// a method of it is called.
func (c *Client) Session(name string) *Session {
	return &Session{client: c, name: name, note: &note{}}
}

// use calls do, and says what a call means that took too long.
func use[R any](s *Session, do func(*Client) (R, error)) (R, error) {
	r, err := do(s.client)
	if errors.Is(err, context.DeadlineExceeded) && s.client.link == nil {
		err = fmt.Errorf("the daemon does not answer: %w", err)
	}
	return r, err
}

// Name is session.Session's.
func (s *Session) Name() string { return s.name }

// Author is session.Session's.
func (s *Session) Author() string { return s.author }

// As is session.Session's. See IsAuthor for the names that a daemon takes.
func (s *Session) As(author string) session.Session { return s.WithAuthor(author) }

// WithAuthor is As with this type.
func (s *Session) WithAuthor(author string) *Session {
	return &Session{client: s.client, name: s.name, author: author, note: &note{}, keyboard: s.keyboard}
}

// WithKeyboard is the same session: nobody else may write while a turn runs that it
// has started.
func (s *Session) WithKeyboard() *Session {
	return &Session{client: s.client, name: s.name, author: s.author, note: s.note, keyboard: true}
}

// Info is session.Session's.
func (s *Session) Info(ctx context.Context) (session.Info, error) {
	return use(s, func(c *Client) (session.Info, error) { return c.Get(ctx, s.name) })
}

// Submit is session.Session's.
func (s *Session) Submit(ctx context.Context, code string) (uint64, error) {
	return s.start(ctx, StartParams{Input: code, Keyboard: s.keyboard})
}

// SubmitSilent is session.Session's.
func (s *Session) SubmitSilent(ctx context.Context, code string) (uint64, error) {
	return s.start(ctx, StartParams{Input: code, Silent: true})
}

// SubmitMayExit is session.Session's.
func (s *Session) SubmitMayExit(ctx context.Context, code string) (uint64, error) {
	return s.start(ctx, StartParams{Input: code, Keyboard: s.keyboard, MayExit: true})
}

func (s *Session) start(ctx context.Context, p StartParams) (uint64, error) {
	p.Session, p.Author = s.name, s.author
	r, err := use(s, func(c *Client) (session.Reply, error) { return c.Start(ctx, p) })
	return r.Turn, err
}

// Answer is session.Session's.
func (s *Session) Answer(ctx context.Context, wait timeline.Seq, in session.Input) (uint64, error) {
	r, err := use(s, func(c *Client) (session.Reply, error) {
		return c.Input(ctx, InputParams{Session: s.name, Wait: wait, Input: string(in.Data), EOF: in.EOF, Author: s.author})
	})
	return r.Turn, err
}

// Wait is session.Session's. The daemon bounds the reply itself.
func (s *Session) Wait(ctx context.Context, turn uint64, o *session.WaitOptions) (session.Reply, error) {
	var opts session.WaitOptions
	if o != nil {
		opts = *o
	}
	deadline := time.Now().Add(opts.Timeout)
	for {
		pause := longPoll
		switch {
		case opts.Poll:
			pause = 0
		case opts.Timeout > 0:
			pause = min(pause, max(time.Until(deadline), 1)) // not a poll
		}
		asked := time.Now()
		reply, err := use(s, func(c *Client) (session.Reply, error) {
			return c.Wait(ctx, WaitParams{Session: s.name, Turn: turn, WaitMS: ms(pause), After: opts.After})
		})
		if err != nil {
			return session.Reply{}, err
		}
		ending := turn != 0 && reply.State == session.StateStopping // its outcome comes with the end of the worker
		over := reply.Outcome != "" || !reply.State.IsActive() && !ending || reply.State == session.StateWaiting
		if over || pause < time.Millisecond || opts.Timeout > 0 && !time.Now().Before(deadline) {
			return reply, nil
		}
		if rest := min(leastPoll, pause) - time.Since(asked); rest > 0 { // it should have waited
			timer := time.NewTimer(rest)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return session.Reply{}, ctx.Err()
			}
		}
	}
}

// Interrupt is session.Session's.
func (s *Session) Interrupt(ctx context.Context, turn uint64) (session.InterruptResult, error) {
	r, err := use(s, func(c *Client) (Interrupted, error) {
		return c.Interrupt(ctx, InterruptParams{Session: s.name, Turn: turn, Active: turn == 0, Author: s.author})
	})
	return r.Result, err
}

// Allow is session.Session's.
func (s *Session) Allow(ctx context.Context, g session.Grant) error {
	_, err := use(s, func(c *Client) (struct{}, error) {
		return struct{}{}, c.Allow(ctx, AllowParams{Session: s.name, Grant: g, Author: s.author})
	})
	return err
}

// AnswerPermission is session.Session's.
func (s *Session) AnswerPermission(ctx context.Context, id uint64, ok bool) error {
	_, err := use(s, func(c *Client) (struct{}, error) {
		return struct{}{}, c.Permit(ctx, PermitParams{Session: s.name, Permission: id, OK: ok, Author: s.author})
	})
	return err
}

// Reset is session.Session's.
func (s *Session) Reset(ctx context.Context) error {
	_, err := use(s, func(c *Client) (session.Info, error) { return c.Reset(ctx, s.name) })
	return err
}

// Close implements session.Session. It ends the session for all clients.
func (s *Session) Close(ctx context.Context) error {
	_, err := use(s, func(c *Client) (struct{}, error) { return struct{}{}, c.CloseSession(ctx, s.name) })
	return err
}

// Events is session.Session's. It also ends when the daemon is gone.
func (s *Session) Events(ctx context.Context, after timeline.Seq) iter.Seq2[timeline.Event, error] {
	return func(yield func(timeline.Event, error) bool) {
		w, err := use(s, func(c *Client) (*Subscription, error) {
			return c.Subscribe(ctx, SubscribeParams{Session: s.name, After: after, Author: s.author})
		})
		if err != nil {
			yield(timeline.Event{}, err)
			return
		}
		defer func() {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shortCall)
			defer cancel()
			_ = w.Cancel(bounded)
		}()
		for {
			e, err := w.Next(ctx)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Read is session.Session's.
func (s *Session) Read(ctx context.Context, q session.ReadQuery) (session.EventPage, error) {
	return use(s, func(c *Client) (session.EventPage, error) {
		return c.Read(ctx, ReadParams{Session: s.name, ReadQuery: q})
	})
}

// TurnSummaries is session.Session's.
func (s *Session) TurnSummaries(ctx context.Context, q session.TurnSummariesQuery) (session.TurnSummaries, error) {
	return use(s, func(c *Client) (session.TurnSummaries, error) {
		return c.Outline(ctx, OutlineParams{Session: s.name, TurnSummariesQuery: q})
	})
}

// Blob is session.Session's.
func (s *Session) Blob(ctx context.Context, digest string, offset int64, limit int) (session.BlobPart, error) {
	return use(s, func(c *Client) (session.BlobPart, error) {
		return c.Blob(ctx, BlobParams{Session: s.name, Digest: digest, Offset: offset, Limit: limit})
	})
}

// Files is session.Session's.
func (s *Session) Files(ctx context.Context) ([]session.File, error) {
	return use(s, func(c *Client) ([]session.File, error) {
		return c.Files(ctx, FilesParams{Session: s.name})
	})
}

// File is session.Session's.
func (s *Session) File(ctx context.Context, path string, offset int64, limit int) (session.FilePart, error) {
	return use(s, func(c *Client) (session.FilePart, error) {
		return c.File(ctx, FileParams{FilesParams: FilesParams{Session: s.name}, Path: path, Offset: offset, Limit: limit})
	})
}

// Search is session.Session's.
func (s *Session) Search(ctx context.Context, q session.SearchQuery) (session.SearchResult, error) {
	return use(s, func(c *Client) (session.SearchResult, error) {
		return c.Search(ctx, SearchParams{Session: s.name, SearchQuery: q})
	})
}

// Output is session.Session's.
func (s *Session) Output(ctx context.Context, q session.OutputQuery) (session.Output, error) {
	return use(s, func(c *Client) (session.Output, error) {
		return c.Output(ctx, OutputParams{Session: s.name, OutputQuery: q})
	})
}

// Complete implements session.Session.
func (s *Session) Complete(ctx context.Context, text string, cursor int) (session.Completion, error) {
	return use(s, func(c *Client) (session.Completion, error) {
		return c.Complete(ctx, QueryParams{Session: s.name, Text: text, Cursor: cursor})
	})
}

// Inspect implements session.Session.
func (s *Session) Inspect(ctx context.Context, text string, cursor int) (session.Inspection, error) {
	return use(s, func(c *Client) (session.Inspection, error) {
		return c.Inspect(ctx, QueryParams{Session: s.name, Text: text, Cursor: cursor})
	})
}

// Parse is session.Session's.
func (s *Session) Parse(ctx context.Context, text string) (session.ParseStatus, error) {
	p, err := use(s, func(c *Client) (Parsed, error) {
		return c.Parse(ctx, QueryParams{Session: s.name, Text: text})
	})
	return p.Status, err
}

// Destinations is session.Session's.
func (s *Session) Destinations(ctx context.Context) ([]session.Destination, error) {
	r, err := use(s, func(c *Client) (ReachedPlaces, error) { return c.Reached(ctx, s.name) })
	return r.Places, err
}

// Visibility is session.Session's.
func (s *Session) Visibility(ctx context.Context) (session.Visibility, error) {
	return use(s, func(c *Client) (session.Visibility, error) { return c.Shown(ctx, s.name) })
}

// Variables is session.Session's.
func (s *Session) Variables(ctx context.Context) (session.Variables, error) {
	return use(s, func(c *Client) (session.Variables, error) { return c.Variables(ctx, s.name) })
}

// Resize is session.Session's. Of several clients the size of the latest holds.
func (s *Session) Resize(ctx context.Context, size session.Size) error {
	_, err := use(s, func(c *Client) (struct{}, error) {
		return struct{}{}, c.Resize(ctx, ResizeParams{Session: s.name, Rows: int(size.Rows), Cols: int(size.Cols)})
	})
	return err
}

// ReadAs lets a reader go on where it stopped. It reads under its own name, or under another
// name if a connected client has that one. It waits for a session that is being prepared. The
// session that it returns writes under the same name. read is how far the reader had read.
func (s *Session) ReadAs(ctx context.Context, reader string) (as *Session, read timeline.Seq, err error) {
	m, err := use(s, func(c *Client) (Marked, error) {
		return c.Mark(ctx, MarkParams{Session: s.name, Reader: reader, Own: true})
	})
	if err != nil {
		return s, 0, err
	}
	return s.WithAuthor(m.Reader), m.Seq, nil
}

// Mark remembers how far the author has read; 0 only asks. It returns how far.
func (s *Session) Mark(ctx context.Context, seq timeline.Seq) (timeline.Seq, error) {
	m, err := use(s, func(c *Client) (Marked, error) {
		return c.Mark(ctx, MarkParams{Session: s.name, Reader: s.author, Seq: seq})
	})
	return m.Seq, err
}

// Take takes the keyboard, see Client.Take.
func (s *Session) Take(ctx context.Context, long bool) error {
	_, err := use(s, func(c *Client) (struct{}, error) {
		return struct{}{}, c.Take(ctx, s.name, s.author, long)
	})
	return err
}

// Release gives the keyboard back, if this process has it.
func (s *Session) Release(ctx context.Context) error {
	_, err := use(s, func(c *Client) (struct{}, error) {
		return struct{}{}, c.Release(ctx, s.name, s.author)
	})
	return err
}
