package ipc

// Bounds of the protocol. For a value that exceeds them, the receiver reports a [ProtocolError]
// and the sender [ErrTooLarge]. Query.Text and InputLine.Text are bounded only by the frame.
const (
	ProtocolName    = "turnstone-worker"
	ProtocolVersion = 1

	MaxFrameBytes  = 64 << 20 // payload of one frame, the length field excluded
	MaxOutputBytes = 64 << 10 // Output.Data
	MaxTextBytes   = 64 << 10 // every prompt, name, title and message
	MaxMatches     = 200      // QueryResult.Matches
	MaxVariables   = 200      // QueryResult.Variables
	MaxBriefBytes  = 256      // each text of a Variable, the name of a Call, a type of a Display
	MaxTypes       = 32       // Display.Data, QueryResult.Data
	MaxBundleBytes = 48 << 20 // of Display.Data or QueryResult.Data, all types together
	MaxMetaBytes   = 1 << 20  // Display.Meta
	MaxFields      = 64       // of one message, or of an object in it, including unknown fields
	MaxDepth       = 16       // nested arrays and maps, including the message itself
)

// A Message is the content of one frame: one of the structs of this package, by value.
type Message interface {
	// Type is the value of the frame's "type" field.
	Type() string
}

// Messages from the supervisor to the worker.
type (
	// TurnStart asks the worker to run one turn. It is sent only to an idle worker.
	TurnStart struct {
		Turn   uint64
		Input  []byte // opaque to all but the worker
		Silent bool   // it is from a tool and leaves no trace in the runtime's history of inputs and results
		NoExit bool   // if the code exits, that is an error, and the worker continues if its runtime can

		// Dialect is the dialect of the input: empty for the plain language. A worker whose
		// language has no such dialect ignores it.
		Dialect InputDialect
	}

	// TurnInput answers one wait of a turn's code. A worker drops it if that wait is over.
	TurnInput struct {
		Turn  uint64
		Wait  uint64
		Input []byte
		EOF   bool // one end of file after Input; it is not sticky
	}

	// Interrupt asks the worker to stop a turn. Turn 0 refers to the start-up and, later, to a query.
	Interrupt struct {
		Turn  uint64
		Seq   uint64 // from 1 within one turn; a retry repeats it
		Level uint8  // 1, or 2 for one that also ends code that has caught the first
	}

	// Query asks an idle worker about text, variables or a table. It is not a turn.
	Query struct {
		ID     uint64
		Kind   QueryKind
		Text   string
		Cursor uint64 // bytes into Text: complete, inspect

		Dialect InputDialect // of Text, as in TurnStart
	}

	// Functions lists the host functions that code may call. It replaces the previous list. It
	// is sent only to a worker with Capabilities.Functions.
	Functions struct {
		Revision uint64
		List     []byte // an encoded value
	}

	// CallResult completes a Call, in parts if it is large. Each Call has exactly one result.
	CallResult struct {
		ID     uint64
		Value  []byte // the next part of an encoded value
		More   bool   // another part follows
		Failed bool   // the value is an error: a map with the texts name and message
	}

	// Shutdown asks the worker to run its exit handlers and exit.
	Shutdown struct {
		GraceMS uint64 // milliseconds
	}
)

// Messages from the worker to the supervisor. Mark is the number of the marker that shows where
// in the terminal stream the frame belongs; 0 means no marker.
type (
	// WorkerReady is the first frame that a worker sends.
	WorkerReady struct {
		Protocol     Protocol
		Worker       Worker
		Capabilities Capabilities
	}

	// Output carries bytes that the runtime has written.
	Output struct {
		Stream Stream
		Data   []byte // at most MaxOutputBytes, any bytes
		Kind   TextKind
		Begins bool // the echo of a value begins with Data; only with the kind TextResult
		Mark   uint64
	}

	// Image is a Display with one type, an image. Workers without the capability Display send
	// it.
	Image struct {
		MIME   string
		Data   []byte
		Source string // groups updates; may be empty
		Update bool   // replaces the last image of Source
		Title  string
		Mark   uint64
	}

	// Display is content to show, in several equivalent types. A reader picks the one that it
	// can show best.
	Display struct {
		Data   map[string][]byte // by MIME type; text is UTF-8
		Meta   []byte            // a JSON object by MIME type; empty means none
		ID     string            // names it for updates; may be empty
		Update bool              // replaces the last display with this ID
		Kind   DisplayKind
		Title  string
		Mark   uint64
	}

	// Clear asks to remove the turn's output so far.
	Clear struct {
		Wait bool // only when the next output of the turn comes
		Mark uint64
	}

	// InputLine marks where a line was passed to the runtime. It is never an echo.
	InputLine struct {
		Turn   uint64
		Prompt string
		Text   string // empty when Secret
		Secret bool
		Line   uint64 // its line of the turn's input; 0: it answers a StdinWait
		Mark   uint64
	}

	// StdinWait says that the runtime asks for standard input.
	StdinWait struct {
		Turn   uint64
		Wait   uint64 // chosen by the worker, from 1, never repeated in one worker
		Prompt string
		Kind   WaitKind
		Want   InputAmount
		Mark   uint64
	}

	// Idle ends a turn; turn 0 is the first readiness.
	Idle struct {
		Turn         uint64
		Prompt       string
		Continuation string // the prompt of the further lines of an input; "" is the language's default
		Outcome      Outcome
		Error        *RuntimeError // nil unless Outcome is OutcomeError or OutcomeInterrupted
		Unrun        uint64        // lines of the input that were not run because of Outcome; 0 for OutcomeOK
		Mark         uint64
	}

	// InterruptAck says that an interrupt was delivered, not that it took effect.
	InterruptAck struct {
		Turn   uint64
		Seq    uint64
		Result InterruptResult
	}

	// Sigint says which side handles SIGINT from now on.
	Sigint struct {
		Owner SigintOwner
	}

	// Progress says how far a turn is, as hooks of the runtime report it.
	Progress struct {
		Turn     uint64
		Progress float64
		Total    *float64 // nil when unknown
		Message  string
	}

	// QueryResult answers the Query with the same ID.
	QueryResult struct {
		ID      uint64
		Status  QueryStatus
		Start   uint64   // complete: where in Text the matches begin, bytes
		Matches []string // complete: replacements of Text[Start:Cursor], at most MaxMatches

		Variables []Variable // variables: at most MaxVariables
		More      uint64     // variables: number of variables not in the list

		// Data is the description by MIME type for inspect, and the rows as MIMETable for table;
		// empty if there is none.
		Data map[string][]byte
	}

	// Call asks to call a host function.
	Call struct {
		ID   uint64 // never repeated in one worker
		Turn uint64 // the active one; 0 between turns
		Name string
		Args []byte // an encoded value: a map of the arguments by name
		Mark uint64
	}

	// CallCancel says that the code no longer waits for the result of a Call.
	CallCancel struct {
		ID uint64
	}

	// SessionEnd is the last frame that a worker sends.
	SessionEnd struct {
		Reason  EndReason
		Code    *int64 // exit code that the runtime asked for; nil when unknown
		Message string
		Mark    uint64
	}
)

// Protocol names the protocol version that the worker speaks.
type Protocol struct {
	Name    string
	Version uint64
}

// Worker describes a worker process and its runtime.
type Worker struct {
	Name           string
	Version        string
	Language       string
	RuntimeVersion string
	Executable     string
	PID            uint64
}

// Capabilities lists what a worker offers beyond the minimum.
type Capabilities struct {
	Images    bool
	Display   bool // sends Display, Clear and text kinds; takes TurnStart.Silent and QueryInspect
	Fence     bool // writes text to the terminal, and frames carry marks
	Query     bool
	Variables bool // answers QueryVariables
	Functions bool // accepts Functions and may call them
	Tables    bool // answers QueryTable, and sends displays with the type MIMETable
	Interrupt InterruptMode
}

// A Variable is a name that user code has defined, and its value in short.
type Variable struct {
	Name  string
	Type  string
	Shape string // in the terms of the language: "12", "(3, 4)"; empty when it has none
	Bytes uint64 // size of the value itself; 0 when unknown
}

// RuntimeError is the error of the language that ended a turn.
type RuntimeError struct {
	Name    string
	Message string
}

// The enumerations of the protocol. An unknown value is a [ProtocolError].
type (
	Stream          string
	TextKind        string
	DisplayKind     string
	Outcome         string
	WaitKind        string
	InputAmount     string
	InterruptMode   string
	InterruptResult string
	SigintOwner     string
	QueryKind       string
	QueryStatus     string
	InputDialect    string
	EndReason       string
)

// These are the values of the enumerations. docs/worker-protocol.md says what each means.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"

	TextPlain     TextKind = ""
	TextResult    TextKind = "result"    // the echo of a value
	TextTraceback TextKind = "traceback" // the error report that ends the turn

	DisplayShown  DisplayKind = "display" // shown by code
	DisplayResult DisplayKind = "result"  // the value of the turn; its echo is text before it

	OutcomeOK          Outcome = "ok"
	OutcomeError       Outcome = "error"
	OutcomeInterrupted Outcome = "interrupted"

	WaitLine     WaitKind = "line"
	WaitSecret   WaitKind = "secret"
	WaitContinue WaitKind = "continue"
	WaitDebugger WaitKind = "debugger"

	WantLine InputAmount = "line"
	WantAll  InputAmount = "all"

	InterruptBySignal InterruptMode = "signal"
	InterruptBySelf   InterruptMode = "self"

	InterruptRaised  InterruptResult = "raised"
	InterruptPending InterruptResult = "pending"
	InterruptStale   InterruptResult = "stale"

	SigintOurs    SigintOwner = "ours"
	SigintUser    SigintOwner = "user"
	SigintIgnored SigintOwner = "ignored"

	QueryComplete QueryKind = "complete"
	QueryParse    QueryKind = "parse"

	// QueryVariables needs the capability Variables.
	QueryVariables QueryKind = "variables"

	// QueryInspect needs the capability Display.
	QueryInspect QueryKind = "inspect"

	// QueryTable needs the capability Tables. Its text is JSON.
	QueryTable QueryKind = "table"

	StatusOK         QueryStatus = "ok"         // complete, variables, inspect, table: this is the answer
	StatusComplete   QueryStatus = "complete"   // parse: Text is a whole input
	StatusIncomplete QueryStatus = "incomplete" // parse: more lines are needed
	StatusInvalid    QueryStatus = "invalid"    // parse: no further line can make it valid
	StatusTimeout    QueryStatus = "timeout"    // the query was interrupted

	// DialectNotebook is the language as notebooks write it, such as Python with magics.
	DialectNotebook InputDialect = "notebook"

	EndShutdown      EndReason = "shutdown"
	EndExit          EndReason = "exit"
	EndCrash         EndReason = "crash"
	EndProtocolError EndReason = "protocol_error"
)

// MarkOf returns the number of a message's marker in the terminal; 0 when it has none.
func MarkOf(m Message) uint64 {
	switch m := m.(type) {
	case Output:
		return m.Mark
	case Image:
		return m.Mark
	case Display:
		return m.Mark
	case Clear:
		return m.Mark
	case InputLine:
		return m.Mark
	case StdinWait:
		return m.Mark
	case Idle:
		return m.Mark
	case SessionEnd:
		return m.Mark
	case Call:
		return m.Mark
	}
	return 0
}

func (TurnStart) Type() string    { return "turn_start" }
func (TurnInput) Type() string    { return "turn_input" }
func (Interrupt) Type() string    { return "interrupt" }
func (Query) Type() string        { return "query" }
func (Shutdown) Type() string     { return "shutdown" }
func (Functions) Type() string    { return "functions" }
func (CallResult) Type() string   { return "call_result" }
func (WorkerReady) Type() string  { return "worker_ready" }
func (Output) Type() string       { return "output" }
func (Image) Type() string        { return "image" }
func (Display) Type() string      { return "display" }
func (Clear) Type() string        { return "clear" }
func (InputLine) Type() string    { return "input_line" }
func (StdinWait) Type() string    { return "stdin_wait" }
func (Idle) Type() string         { return "idle" }
func (InterruptAck) Type() string { return "interrupt_ack" }
func (Sigint) Type() string       { return "sigint" }
func (Progress) Type() string     { return "progress" }
func (QueryResult) Type() string  { return "query_result" }
func (Call) Type() string         { return "call" }
func (CallCancel) Type() string   { return "call_cancel" }
func (SessionEnd) Type() string   { return "session_end" }
