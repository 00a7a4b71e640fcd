package event

import (
	"time"
)

// Seq numbers the events of one Log: from 1, without holes, never repeated.
// As a cursor it means "everything up to and including this one is known".
type Seq uint64

// An Event is one entry of a timeline. It is immutable once appended.
type Event struct {
	Seq          Seq
	At           time.Time
	Generation   uint64 // which worker of the session; 0 before the first
	Turn         uint64 // the turn it belongs to, or the last one when BetweenTurns
	BetweenTurns bool   // it arrived while no turn was active
	Silent       bool   // its turn is silent: a tool asked for it; see IsUnseen
	// Line is the line of the output file in which the event begins, from 1. Readers fill it in.
	// It is 0 if unknown or without a file.
	Line int
	Body Body
}

// A Body is the content of an event: one of the structs below, by value.
type Body interface{ kind() *eventKind }

// Stream identifies the output stream of the runtime. Text that child processes write to the
// terminal counts as Stdout.
type Stream uint8

const (
	Stdout Stream = iota
	Stderr
)

// TextKind distinguishes echoes and tracebacks from plain output.
type TextKind string

const (
	TextResult    TextKind = "result"    // the echo of a value
	TextTraceback TextKind = "traceback" // the error report that ended the turn
)

// Outcome is how a turn ended; "" while it runs.
type Outcome string

const (
	OutcomeOK          Outcome = "ok"
	OutcomeError       Outcome = "error"
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeEnded       Outcome = "ended" // its worker ended
)

// InputKind tells which kind of input is requested.
type InputKind string

const (
	InputKindLine     InputKind = "line"     // a line of input
	InputKindSecret   InputKind = "secret"   // a line that must not be shown or logged
	InputKindContinue InputKind = "continue" // more code: what came so far is incomplete
	InputKindDebugger InputKind = "debugger" // a command for a debugger
	// InputKindPermission asks the user to decide what code may access. No input answers it.
	InputKindPermission InputKind = "permission"
	// InputKindForm asks the user to fill in a form from an MCP server, or to decline it.
	InputKindForm InputKind = "form"
)

// WantsLine reports whether a line of input answers such a request.
func (k InputKind) WantsLine() bool { return k != InputKindPermission && k != InputKindForm }

type (
	// Text is raw bytes, exactly as written; a chunk may end inside a character.
	Text struct {
		Stream Stream
		Data   []byte
		Kind   TextKind // "" for other text
		// Begins says that the echo of a value begins here, if Kind is TextResult. A worker that
		// does not tell never sets it.
		Begins bool
	}

	// Display is content to show, in several equivalent types. An image is a Display with one
	// type.
	Display struct {
		Data   map[string][]byte // by MIME type; text and JSON are UTF-8
		Meta   []byte            // a JSON object by MIME type; may be empty
		ID     string            // names it for updates; may be empty
		Update bool              // replaces the last one of ID, if there is one
		Result bool              // it is the turn's value; its echo, text of kind TextResult, comes before
		Title  string
		// Omitted names the types that were left out of Data.
		Omitted map[string]Blob

		digests map[string]Digest    // of the larger types in Data; computed by the log
		unread  map[string]FileRange // large data in the events file that was not read yet
	}

	// OutputCleared asks to remove the turn's output so far. Readers that keep a record ignore
	// it.
	OutputCleared struct {
		Wait bool // only when the next output of the turn comes
	}

	// TurnStarted says that the worker begins to run an input.
	TurnStarted struct {
		Input       []byte // the first MaxInputBytes of it
		InputBytes  int    // how long the whole input was
		Author      string // who submitted it; "" when unknown
		TraceParent string // the span in which it was submitted, as a traceparent of the W3C; "" when there is none
	}

	// TurnEnded says that a turn is over, and how it ended.
	TurnEnded struct {
		Outcome Outcome
		Name    string // the language's name of the error, when there was one
		Message string // of the error; for OutcomeEnded, why the worker ended, as WorkerExited.FullReason
		Code    int    // for OutcomeEnded, as in WorkerExited: the exit status of the worker; -1 when there is none
		Signal  string // for OutcomeEnded, as in WorkerExited: the signal that killed the worker, "SIGKILL"
		Prompt  string
		Elapsed time.Duration
	}

	// InputRequested records that a program asks for standard input, or the session for a
	// decision of the user. The Seq of the event is the public ID of the request.
	InputRequested struct {
		Prompt       string
		Kind         InputKind
		Terminal     bool         // seen at the terminal, not asked by the runtime
		Reader       string       // Terminal: the reading program
		Raw          bool         // Terminal: it reads each key, not lines
		Polls        bool         // Terminal: judged, because it only looks for input again and again
		PermissionID uint64       // InputKindPermission: the number of the permission
		Denied       AccessDenied // InputKindPermission: the access that stays denied without it
	}

	// InputRequestEnded records that the input request with this ID is over.
	InputRequestEnded struct {
		Request Seq
	}

	// InputLine marks where a line of input, or keys, were passed to the program. Text is empty
	// when Secret.
	InputLine struct {
		Prompt string
		Text   string
		Secret bool
		Author string
		Keys   bool // Text is keys, in the notation of session.Keys
	}

	// Interrupt records that a client asked to interrupt the turn.
	Interrupt struct {
		Level  int
		Author string
	}

	// Progress says how far a turn is, as the runtime reports it.
	Progress struct {
		Progress float64
		Total    float64 // 0 when unknown
		Message  string
	}

	// FullScreenChanged records that a program has taken over the keys of the user's terminal, or
	// given them back. Text between the two events belongs to a full-screen program.
	FullScreenChanged struct {
		On bool
	}

	// Preparation reports progress of the work that must be done before a worker can start. It
	// is over when Done equals Total, or when its worker generation ends. Done never decreases.
	Preparation struct {
		Name        string // what is being prepared: "numpy, pandas"; "" means a part of the worker
		Message     string // one printable line; may be empty
		Done, Total int64  // in any unit; Total is 0 while unknown
	}

	// Call reports calls of one host function and how they ended: all calls of that function
	// that ended since the last such event.
	Call struct {
		Name      string
		Count     int
		Failed    int   // ended with an error, not a cancellation
		Cancelled int   // the caller was interrupted or went away
		Sent      int64 // bytes of arguments
		Received  int64 // bytes of results
		// Elapsed is how long at least one of them was running.
		Elapsed time.Duration
	}

	// Notice is a message of the supervisor to the readers of the session.
	Notice struct {
		Message string
	}

	// AccessDenied reports an access that the sandbox denied or, for a Call, that no user has
	// allowed. Exactly one of Path, Host and Call is set.
	AccessDenied struct {
		Op           string `json:"op"`                      // "write", "create", "remove", "rename", "change" (a mode), "set" (a setting of git), "read", "connect" or "call"
		Path         string `json:"path,omitempty"`          // the file
		Host         string `json:"host,omitempty"`          // "name:port"
		ChildProgram string `json:"child_program,omitempty"` // the program's name, if it was a child

		Call        string `json:"call,omitempty"`        // the host function, "github.search_issues"
		Detail      string `json:"detail,omitempty"`      // its arguments, abbreviated; for "set" the name of the setting
		Destructive bool   `json:"destructive,omitempty"` // only a grant that names Call in full allows it

		// Hint is the command with which a user can allow it; "" if no command can.
		Hint string `json:"hint,omitempty"`
		// Author is the user who refused it; "" if no user was asked.
		Author string `json:"author,omitempty"`
	}

	// AccessGranted records that a user has granted the session access. Exactly one of Read,
	// Write, Host and Call is set.
	AccessGranted struct {
		Read   string // a file or directory that it can read from now on
		Write  string // a file or directory that it may write
		Host   string // a pattern of hosts that it may reach
		Call   string // a host function that it may call, or "group.*"
		Always bool   // for later sessions of the workspace, too
		Author string // who granted it; "" when unknown
	}

	// Limit records that the session came close to one of its limits, or reached it.
	Limit struct {
		Kind        LimitKind
		Used        int64 // bytes, processes, or for turns nanoseconds
		Max         int64
		AllSessions bool      // the limit is for all sessions together
		Step        LimitStep // what was done about it
		// Program is the program that was ended, when Step is LimitEnded.
		Program string
	}

	// WorkerStarted says that a worker is starting.
	WorkerStarted struct {
		Worker string // spec name and executable
	}

	// WorkerExited reports how and why a worker ended.
	WorkerExited struct {
		Reason   string // one line: "exit status 3", "killed by SIGKILL", …
		ExitCode int    // its exit status; -1 when there is none
		Signal   string // the signal that killed it, "SIGKILL"; "" when it exited
		Message  string // the message of the runtime about it; may be empty
		// Clean is true when the runtime exited on its own or was asked to.
		Clean bool
		// NeverReady is true when it ended before it could take an input.
		NeverReady   bool
		LastLine     string // last executed line of the input; may be empty
		PeakRSSBytes int64  // bytes; 0 when unknown
	}

	// Gap stands for events that were dropped. Readers create it; it is never appended.
	Gap struct {
		From, To Seq   // inclusive
		Bytes    int64 // of text and displays
	}

	// Omitted stands for events that a Window left out on purpose and that are still on disk.
	// Only Window creates it; it is never appended.
	Omitted struct {
		From, To  Seq
		Bytes     int64
		FirstLine int // lines of the output file, from 1; 0 without a file
		LastLine  int
	}
)

// IsUnseen reports whether an event belongs to a silent turn. Readers that show a session to a
// user or a model skip such events, but show session events that arrived during the turn.
func (e Event) IsUnseen() bool {
	if !e.Silent {
		return false
	}
	switch e.Body.(type) {
	case Text, Display, OutputCleared, TurnStarted, TurnEnded, InputRequested, InputRequestEnded, InputLine, Interrupt, Progress, FullScreenChanged, Call:
		return true
	}
	return false
}

// MaxInputBytes bounds TurnStarted.Input, in bytes.
const MaxInputBytes = 64 << 10

// LimitKind is the resource that a Limit bounds.
type LimitKind string

const (
	LimitMemory    LimitKind = "memory"    // of the whole session
	LimitProcesses LimitKind = "processes" // with their threads
	LimitTurn      LimitKind = "turn"      // how long a turn runs
)

// LimitStep is what the supervisor did when a session reached its limit.
type LimitStep string

const (
	LimitWarned      LimitStep = "warned"      // a warning: the limit is close
	LimitRefused     LimitStep = "refused"     // the session gets no more
	LimitInterrupted LimitStep = "interrupted" // its turn was interrupted
	LimitEnded       LimitStep = "ended"       // one of its programs was ended
)
