package session

import (
	"context"
	"iter"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A Session is a named REPL that outlives its workers. It is safe for concurrent use.
// Turns are numbered 1, 2, … for the life of the session; 0 is the start-up of a worker.
//
// Methods return errors of this package, of ctx, and of the connection to the session.
type Session interface {
	// Name is the session's name. It does no I/O.
	Name() string

	// Author is the author of everything written through these methods. It may be "". It does
	// no I/O.
	Author() string

	// As returns the same session for another author. Each input, answer and interrupt through
	// it is recorded under that author. It does no I/O.
	As(author string) Session

	// Info describes the session now.
	Info(ctx context.Context) (Info, error)

	// Submit starts a turn and returns its number. While a turn is active it refuses
	// the input with ErrBusy or ErrWaiting; it never queues one. If there is no worker,
	// it starts one. While a worker starts, the session holds one input, which runs when
	// the worker is ready. Submit returns when the worker's process exists, which takes
	// long while the session is prepared; ErrStart means that there will be none. After
	// a preparation has failed, each input is refused with its error until Reset. ctx
	// bounds the call, not the turn. An exit that the code asks for, such as sys.exit(), is an
	// error of the turn, and the worker and its variables stay; a runtime that cannot go on, as
	// R after quit(), ends all the same, with the outcome timeline.OutcomeEnded.
	Submit(ctx context.Context, code string) (turn uint64, err error)

	// SubmitSilent is like Submit, for a tool that asks behind the scenes: what its turn does
	// leaves no trace in the runtime's history, and readers that show a session to a person or
	// a model skip it, see timeline.Event.IsUnseen. It is recorded like any other turn.
	SubmitSilent(ctx context.Context, code string) (turn uint64, err error)

	// SubmitMayExit is like Submit, for a person at a terminal and for a whole program: code that
	// asks for an exit ends the worker, with its status.
	SubmitMayExit(ctx context.Context, code string) (turn uint64, err error)

	// Answer answers the wait with this id and returns its turn. Input that the reader
	// does not consume stays queued for later waits of the same turn. ErrStale means
	// that the wait is over and nothing was consumed. An error of KindPermission means that
	// the wait is for a permission, which no input gives. A wait with a Form takes a FormAnswer
	// as JSON, and an end of file as a cancel; the error of another one is of KindInvalid and
	// names all faults, and the wait goes on.
	Answer(ctx context.Context, wait timeline.Seq, in Input) (turn uint64, err error)

	// Allow gives the session a right that its sandbox lacks, without a restart, and until it
	// is closed. Held calls go on for which that is enough. With Always, later sessions of the
	// workspace have it, too. Only a person may decide this: a program must never call it by
	// itself, or because a model wants it.
	Allow(ctx context.Context, g Grant) error

	// AnswerPermission answers one permission. A yes allows its Grant. A no is remembered: the session
	// does not ask for the same again. ErrStale means that it is not asked for any more. The
	// rule of Allow holds here as well.
	AnswerPermission(ctx context.Context, id uint64, ok bool) error

	// Wait returns when the turn has ended or asks for input, when o.Until has passed,
	// or when ctx ends. Only the last is an error, that of ctx. Wait does not affect
	// the turn. Turn 0 means the active one; without one, Wait returns at once.
	// ErrStale means that the turn is too old.
	Wait(ctx context.Context, turn uint64, o *WaitOptions) (Reply, error)

	// Interrupt interrupts a turn; 0 means the active one. It drops unread input of the
	// turn and an input that is held, and ends a pending wait. It waits up to a second
	// for the effect, or until ctx ends. If the interrupt before it did not end the
	// turn, and no answer came in between, it is of level 2, which user code cannot
	// swallow.
	Interrupt(ctx context.Context, turn uint64) (InterruptResult, error)

	// Reset ends the worker, even while it is busy, and starts a new one; a preparation
	// begins again. It returns when the new worker's process exists. When ctx ends,
	// Reset returns, and the restart goes on.
	Reset(ctx context.Context) error

	// Close ends the session for good.
	Close(ctx context.Context) error

	// Events yields every event after the cursor, then each new one as it happens. The
	// last pair has no event but the error that ended the sequence: ErrClosed when the
	// session was closed, or that of ctx. A reader that falls behind gets a
	// timeline.Gap; it never delays the session.
	Events(ctx context.Context, after timeline.Seq) iter.Seq2[timeline.Event, error]

	// Read reads a window of the events, in either direction, whether they are in memory or
	// on disk. It costs what it returns, however long the session is. ErrStale means that
	// there is no such turn.
	Read(ctx context.Context, q ReadQuery) (EventPage, error)

	// TurnSummaries says of each turn in short what it was. It reads no events, but for turns that
	// came thousands of turns ago.
	TurnSummaries(ctx context.Context, q TurnSummariesQuery) (TurnSummaries, error)

	// Blob reads data that a page has left out, by the digest that it is named with: at most
	// limit bytes from an offset on, and MaxPartBytes at most, which 0 means. ErrNoBlob means
	// that no event of this session has it, or not any more.
	Blob(ctx context.Context, digest string, offset int64, limit int) (BlobPart, error)

	// Files lists the plain files in the session's own directory, by name.
	Files(ctx context.Context) ([]File, error)

	// File reads a part of one of them: at most limit bytes from an offset on, and
	// MaxPartBytes at most, which 0 means. path is its name, or its whole path as a session
	// tells it. An error of KindNoFile means that there is none, or that it is not a regular file of
	// that directory.
	File(ctx context.Context, path string, offset int64, limit int) (FilePart, error)

	// Search finds lines of the output and of inputs, a part of the session at a time: the
	// caller goes on from Next. Secrets are not found.
	Search(ctx context.Context, q SearchQuery) (SearchResult, error)

	// Output reads lines of the rendered output.
	Output(ctx context.Context, q OutputQuery) (Output, error)

	// Complete asks the idle worker how text could go on at cursor, which is in bytes.
	// Parse asks whether text is a complete input, and Variables what the code has
	// defined. Inspect asks what the thing at cursor is, which ErrUnsupported refuses if the
	// worker does not offer it. None of them is a turn. One that takes too long is given up with
	// ErrNoAnswer, or with ParseUnknown; the next one may be faster.
	Complete(ctx context.Context, text string, cursor int) (Completion, error)
	Parse(ctx context.Context, text string) (ParseStatus, error)
	Variables(ctx context.Context) (Variables, error)
	Inspect(ctx context.Context, text string, cursor int) (Inspection, error)

	// Destinations lists the places in the network with which a session with a sandbox of its list of
	// hosts has had to do, the last first. It is for the user of the session; without such a
	// sandbox the list is empty.
	Destinations(ctx context.Context) ([]Destination, error)

	// Visibility lists what a session with a sandbox sees of the home directory, and which variables it
	// does not have. It is for the user of the session; without a sandbox, or a worker, it is empty.
	Visibility(ctx context.Context) (Visibility, error)

	// Resize sets the size of the worker's terminal.
	Resize(ctx context.Context, size Size) error
}
