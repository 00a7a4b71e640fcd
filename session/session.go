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
	Identity
	Runner
	HistoryReader
	Inspector
	FileTransfer
	AccessControl
	TerminalAccess
}

// Identity is the part of a Session that says which session it is and for whom it acts. Every
// caller needs it.
type Identity interface {
	// Name returns the session's name. It does no I/O.
	Name() string

	// Author returns the author of everything written through these methods. It may be "". It
	// does no I/O.
	Author() string

	// As returns the same session for another author. Each input, answer and interrupt through
	// it is recorded under that author. It does no I/O.
	As(author string) Session

	// InDialect returns the same session for code in another dialect of its language; "" is the
	// plain language. The dialect applies to the inputs that are submitted through the result,
	// and to Parse. Submitting in an unknown dialect is an error of KindInvalid. A language
	// without the dialect ignores it. It does no I/O.
	InDialect(dialect InputDialect) Session

	// Info describes the session now.
	Info(ctx context.Context) (Info, error)
}

// An InputDialect is a dialect of a session's language; "" is the plain language.
type InputDialect string

// DialectNotebook is the language of notebooks. In Python, magics such as %matplotlib and commands
// such as !ls then work as in IPython. An input that is valid Python has the same meaning in both. R
// has no such dialect.
const DialectNotebook InputDialect = "notebook"

// Check returns an error of KindInvalid if the dialect is unknown.
func (d InputDialect) Check() error {
	if d != "" && d != DialectNotebook {
		return Errorf(KindInvalid, "unknown dialect %q; use %q, or none", string(d), string(DialectNotebook))
	}
	return nil
}

// Runner is the part of a Session for callers that run code: it starts, answers and interrupts
// turns, waits for them, and ends workers.
type Runner interface {
	// Submit starts a turn and returns its number. While a turn is active it refuses the input
	// with ErrBusy or ErrWaiting; it never queues one. If there is no worker, it starts one.
	// While a worker starts, the session queues one input, which runs when the worker is ready.
	//
	// Submit returns when the worker's process exists, which takes long while the session is
	// prepared; ErrStart means that there will be none. After a failed preparation, each input
	// is refused with its error until Reset. ctx bounds the call, not the turn.
	//
	// An exit that the code asks for, such as sys.exit(), is an error of the turn, and the
	// worker and its variables stay. A runtime that cannot continue, such as R after quit(),
	// ends all the same, with the outcome timeline.OutcomeEnded.
	Submit(ctx context.Context, code string) (turn uint64, err error)

	// SubmitSilent is like Submit, for a tool that runs code in the background. Its turn leaves
	// no trace in the runtime's history, and readers that show a session to a user or a model
	// skip it; see timeline.Event.IsUnseen. It is recorded like any other turn.
	SubmitSilent(ctx context.Context, code string) (turn uint64, err error)

	// SubmitMayExit is like Submit, for a user at a terminal and for a whole program: an exit
	// that the code asks for ends the worker, with its status.
	SubmitMayExit(ctx context.Context, code string) (turn uint64, err error)

	// Answer answers the input request with this ID and returns its turn. Input that the reader
	// does not consume stays queued for later requests of the same turn. ErrStale means that the
	// request is over and nothing was consumed.
	//
	// An error of KindPermission means that the request is for a permission, which no input
	// gives. A request with a Form takes a FormAnswer as JSON, and an end of file as a cancel.
	// An invalid FormAnswer is an error of KindInvalid that names all faults, and the request
	// stays open.
	Answer(ctx context.Context, request timeline.Seq, in Input) (turn uint64, err error)

	// Wait returns when the turn has ended or asks for input, when o.Timeout has passed, or when
	// ctx ends. Only the last is an error, that of ctx. Wait does not affect the turn. Turn 0
	// means the active one; if there is none, Wait returns at once. ErrStale means that the turn
	// is too old.
	Wait(ctx context.Context, turn uint64, o *WaitOptions) (Reply, error)

	// Interrupt interrupts a turn; 0 means the active one. It drops unread input of the turn and
	// a queued input, and ends an open input request. It waits up to a second for the effect, or
	// until ctx ends. If the previous interrupt did not end the turn, and no answer came in
	// between, it is of level 2, which user code cannot swallow.
	Interrupt(ctx context.Context, turn uint64) (InterruptResult, error)

	// Reset ends the worker, even while it is busy, and starts a new one; a preparation starts
	// again. It returns when the new worker's process exists. When ctx ends, Reset returns, but
	// the restart continues.
	Reset(ctx context.Context) error

	// Close ends the session permanently.
	Close(ctx context.Context) error
}

// HistoryReader is the part of a Session for callers that show, copy or search what happened.
type HistoryReader interface {
	// Events yields every event after the cursor, then each new one as it happens. The last pair
	// has no event but the error that ended the sequence: ErrClosed when the session was closed,
	// or that of ctx. A reader that falls behind gets a timeline.Gap; it never delays the
	// session.
	Events(ctx context.Context, after timeline.Seq) iter.Seq2[timeline.Event, error]

	// Read reads a window of the events, in either direction, from memory or disk. Its cost
	// depends on what it returns, not on the length of the session. ErrStale means that the turn
	// does not exist.
	Read(ctx context.Context, q ReadQuery) (EventPage, error)

	// TurnSummaries describes turns briefly. It reads no events, except for turns that are
	// thousands of turns old.
	TurnSummaries(ctx context.Context, q TurnSummariesQuery) (TurnSummaries, error)

	// Blob reads data that a page has left out, by its digest: at most limit bytes from an
	// offset on, and at most MaxPartBytes, which 0 means. ErrNoBlob means that this session has no
	// such data, or has dropped it.
	Blob(ctx context.Context, digest string, offset int64, limit int) (BlobPart, error)

	// Search finds lines of the output and of inputs, one part of the session at a time: the
	// caller continues from Next. Secrets are not found.
	Search(ctx context.Context, q SearchQuery) (SearchResult, error)

	// Output reads lines of the rendered output.
	Output(ctx context.Context, q OutputQuery) (Output, error)
}

// Inspector is the part of a Session for editors and other tools that ask about code and
// variables. Its methods need an idle worker, except Comms, and none of them is a turn. A query that takes too
// long fails with ErrNoAnswer, or returns ParseUnknown; the next one may be faster.
type Inspector interface {
	// Complete returns possible continuations of text at cursor, which is in bytes.
	Complete(ctx context.Context, text string, cursor int) (Completion, error)

	// Parse reports whether text is a complete input.
	Parse(ctx context.Context, text string) (ParseStatus, error)

	// Variables lists what the code has defined.
	Variables(ctx context.Context) (Variables, error)

	// Inspect describes the name at cursor, which is in bytes. ErrUnsupported means that the
	// worker does not offer this.
	Inspect(ctx context.Context, text string, cursor int) (Inspection, error)

	// TablePage returns rows of a data frame that was shown, as they are now, in the order of q.
	// It may read and sort the whole frame, and has a second for that.
	TablePage(ctx context.Context, q TableQuery) (TablePage, error)

	// Comms returns the changes of the comms of notebooks, even while code runs. Comms are not in
	// the timeline. Only code that has run in a notebook's dialect opens them.
	Comms(ctx context.Context, q CommsQuery) (CommChanges, error)
}

// FileTransfer is the part of a Session for programs that put files into its working directory, and
// get files out of it. Put and Get move a whole file.
//
// A path is relative to the working directory, and has slashes on every system. It contains no
// "..", and no link leads out of the directory. A path that begins with OwnFiles names a file of
// the session's own directory instead: its transcript, its events and its images. Those files can
// only be listed and read. A path that begins with RawPath can have bytes that are not UTF-8.
//
// With a sandbox, a call can do what the code of the session could do, and an error of
// KindNoAccess says what it refuses. It decides by the same rules as for the code, also about files
// that did not exist when the session started. Without a sandbox, a call has the rights of the
// user. A program must not offer these methods to a model: they act outside the sandbox.
type FileTransfer interface {
	// Files lists a directory by name; "" is the working directory, and OwnFiles the session's own
	// directory. A directory with more than MaxListedFiles names is listed in part.
	Files(ctx context.Context, path string) (FileList, error)

	// File reads a part of a regular file: at most limit bytes from an offset on, and at most
	// MaxPartBytes, which 0 means. Links within the working directory are followed. An error of
	// KindNoFile means that it does not exist, or is not a regular file. For the session's own
	// directory, the full path that a session has reported is also valid.
	File(ctx context.Context, path string, offset int64, limit int) (FilePart, error)

	// PutFile takes one piece of a file. The file gets its name with the last piece, at once and
	// as a whole. Until then it has a temporary name in the same directory. A piece that the
	// session has already is taken again, so a call whose answer was lost can be repeated.
	PutFile(ctx context.Context, p FilePiece) (PutProgress, error)

	// RemoveFile removes a file or a link, but no directory.
	RemoveFile(ctx context.Context, path string) error
}

// AccessControl is the part of a Session for the user interface that answers permission requests
// and shows what a sandbox allows.
type AccessControl interface {
	// Allow grants the session access that its sandbox denies, without a restart, until it is
	// closed. Queued calls continue if the grant is sufficient. With Always, later sessions of
	// the workspace get it, too. Only the user may decide this: a program must never call it on
	// its own, or because a model wants it.
	Allow(ctx context.Context, g Grant) error

	// AnswerPermission answers one permission request. A yes allows its Grant. A no is
	// remembered: the session does not ask for the same access again. ErrStale means that the
	// request is no longer open. As with Allow, only the user may decide.
	AnswerPermission(ctx context.Context, id uint64, ok bool) error

	// Destinations lists the network destinations that a session has connected to, or tried to,
	// the latest first. It is for the user of the session. The list is empty unless a sandbox
	// restricts the session to a list of hosts.
	Destinations(ctx context.Context) ([]Destination, error)

	// Visibility lists what a sandboxed session sees of the home directory, and which variables
	// were withheld. It is for the user of the session; without a sandbox or a worker it is
	// empty.
	Visibility(ctx context.Context) (Visibility, error)
}
