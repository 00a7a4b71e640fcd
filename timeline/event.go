package timeline

import "github.com/turnstone-repl/turnstone/timeline/internal/event"

// The events are declared in package event, because package store also needs them for the files of
// a log.
type (
	// Seq numbers the events of one Log: from 1, without holes, never repeated.
	Seq = event.Seq

	// An Event is one entry of a timeline.
	Event = event.Event

	// A Body is the content of an event: one of the structs below, by value.
	Body = event.Body

	// Stream identifies the output stream of the runtime.
	Stream = event.Stream

	// TextKind distinguishes echoes and tracebacks from plain output.
	TextKind = event.TextKind

	// Outcome is how a turn ended; "" while it runs.
	Outcome = event.Outcome

	// InputKind tells which kind of input is requested.
	InputKind = event.InputKind

	// LimitKind is the resource that a Limit bounds.
	LimitKind = event.LimitKind

	// LimitStep is what the supervisor did when a session reached its limit.
	LimitStep = event.LimitStep

	// Text is raw bytes, exactly as written; a chunk may end inside a character.
	Text = event.Text

	// Display is content to show, in several equivalent types.
	Display = event.Display

	// A Blob names data that was left out of a display.
	Blob = event.Blob

	// An Image is the bitmap of a Display, for readers that show images.
	Image = event.Image

	// OutputCleared asks to remove the turn's output so far.
	OutputCleared = event.OutputCleared

	// TurnStarted says that the worker begins to run an input.
	TurnStarted = event.TurnStarted

	// TurnEnded says that a turn is over, and how it ended.
	TurnEnded = event.TurnEnded

	// InputRequested records that a program asks for standard input, or the session for a decision of the user.
	InputRequested = event.InputRequested

	// InputRequestEnded records that the input request with this ID is over.
	InputRequestEnded = event.InputRequestEnded

	// InputLine marks where a line of input was passed to the program.
	InputLine = event.InputLine

	// Interrupt records that a client asked to interrupt the turn.
	Interrupt = event.Interrupt

	// Progress says how far a turn is, as the runtime reports it.
	Progress = event.Progress

	// FullScreenChanged records that a program has taken over the keys of the user's terminal, or given them back.
	FullScreenChanged = event.FullScreenChanged

	// Preparation reports progress of the work that must be done before a worker can start.
	Preparation = event.Preparation

	// Call reports calls of one host function and how they ended: all calls of that function that ended since the last such event.
	Call = event.Call

	// Notice is a message of the supervisor to the readers of the session.
	Notice = event.Notice

	// AccessDenied reports an access that the sandbox denied or, for a Call, that no user has allowed.
	AccessDenied = event.AccessDenied

	// AccessGranted records that a user has granted the session access.
	AccessGranted = event.AccessGranted

	// Limit records that the session came close to one of its limits, or reached it.
	Limit = event.Limit

	// WorkerStarted says that a worker is starting.
	WorkerStarted = event.WorkerStarted

	// WorkerExited reports how and why a worker ended.
	WorkerExited = event.WorkerExited

	// Gap stands for events that were dropped.
	Gap = event.Gap

	// Omitted stands for events that a Window left out on purpose and that are still on disk.
	Omitted = event.Omitted
)

// MaxInputBytes bounds TurnStarted.Input, in bytes.
const MaxInputBytes = event.MaxInputBytes

// The streams of a Text.
const (
	Stdout = event.Stdout
	Stderr = event.Stderr
)

// The kinds of a Text.
const (
	TextResult    = event.TextResult
	TextTraceback = event.TextTraceback
)

// The outcomes of a turn.
const (
	OutcomeOK          = event.OutcomeOK
	OutcomeError       = event.OutcomeError
	OutcomeInterrupted = event.OutcomeInterrupted
	OutcomeEnded       = event.OutcomeEnded
)

// The kinds of input that is requested.
const (
	InputKindLine       = event.InputKindLine
	InputKindSecret     = event.InputKindSecret
	InputKindContinue   = event.InputKindContinue
	InputKindDebugger   = event.InputKindDebugger
	InputKindPermission = event.InputKindPermission
	InputKindForm       = event.InputKindForm
)

// The kinds of a Limit.
const (
	LimitMemory    = event.LimitMemory
	LimitProcesses = event.LimitProcesses
	LimitTurn      = event.LimitTurn
)

// The steps of a Limit.
const (
	LimitWarned      = event.LimitWarned
	LimitRefused     = event.LimitRefused
	LimitInterrupted = event.LimitInterrupted
	LimitEnded       = event.LimitEnded
)

// MIMETable is the type of a bounded form of a data frame, a session.Table as JSON. It comes with
// other types, never alone.
const MIMETable = event.MIMETable

// MIMEWidget is the type of a reference to a widget's comm, for front ends of notebooks. It comes with
// a text, which all other readers show.
const MIMEWidget = event.MIMEWidget

// NewImageDisplay returns a Display with one type, an image. id may be empty.
func NewImageDisplay(mime string, data []byte, id, title string) Display {
	return event.NewImageDisplay(mime, data, id, title)
}
