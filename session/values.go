package session

import (
	"encoding/json"
	"time"

	"github.com/turnstone-repl/turnstone/timeline"
)

// Info describes a session at one moment.
type Info struct {
	Name        string        `json:"name"`
	Language    string        `json:"language"` // "" while that is not known
	State       State         `json:"state"`
	Since       time.Time     `json:"since"`                 // when State was reached
	Preparing   bool          `json:"provisional,omitempty"` // packages for it are being prepared
	Failure     string        `json:"failure,omitempty"`     // why they could not be
	With        []string      `json:"with,omitempty"`        // packages that were prepared
	Generation  uint64        `json:"generation"`
	Turn        uint64        `json:"turn"`           // the active turn, or the last one
	Running     time.Duration `json:"-"`              // how long the active turn has run; 0 when none does. running_ms in JSON
	Wait        *Wait         `json:"wait,omitempty"` // set when State is StateWaiting
	Prompt      string        `json:"prompt,omitempty"`
	Opened      time.Time     `json:"opened"`
	PID         int           `json:"pid,omitempty"` // of the worker; 0 when there is none
	MemoryBytes int64         `json:"memory_bytes,omitempty"`
	Runtime     string        `json:"runtime,omitempty"` // its version; "" until the worker is ready
	Executable  string        `json:"executable,omitempty"`
	Why         string        `json:"why,omitempty"`         // how Executable was chosen
	Notice      string        `json:"notice,omitempty"`      // what is to be known of that; see workers.Spec
	Dir         string        `json:"dir,omitempty"`         // the workers' directory
	OutputPath  string        `json:"output_path,omitempty"` // the rendered transcript; "" when there is none
	Lost        string        `json:"lost,omitempty"`        // that of the session before it, which was lost when its program was killed
	LastSeq     timeline.Seq  `json:"last_seq"`
	Watchers    int           `json:"watchers"`         // in a daemon
	Writer      string        `json:"writer,omitempty"` // who has the keyboard, in a daemon
}

type plainInfo Info

type wireInfo struct {
	plainInfo
	RunningMS int64 `json:"running_ms,omitempty"`
}

// MarshalJSON has Running as whole milliseconds.
func (i Info) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireInfo{plainInfo(i), i.Running.Milliseconds()})
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (i *Info) UnmarshalJSON(b []byte) error {
	var w wireInfo
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*i = Info(w.plainInfo)
	i.Running = time.Duration(w.RunningMS) * time.Millisecond
	return nil
}

// A Wait says that the active turn asks for standard input.
type Wait struct {
	ID       timeline.Seq      `json:"id"`
	Turn     uint64            `json:"turn"`
	Prompt   string            `json:"prompt"`
	Kind     timeline.WaitKind `json:"kind"`
	Secret   bool              `json:"secret,omitempty"`   // the answer must not be shown or logged
	Terminal bool              `json:"terminal,omitempty"` // a program reads the terminal; the runtime did not ask
	Reader   string            `json:"reader,omitempty"`   // Terminal: that program's name
}

// Input answers a wait.
type Input struct {
	Data []byte // a reader of lines needs a newline at its end
	EOF  bool   // one end of file after Data
}

// WaitOptions say how far Wait goes.
type WaitOptions struct {
	// Until is how long to wait at most; 0 means that only ctx bounds it.
	Until time.Duration

	// Poll means not to wait at all.
	Poll bool

	// After is the caller's cursor: the reply holds the events after it. 0 means from
	// the turn's start, and for turn 0 from the session's.
	After timeline.Seq

	// HeadBytes and TailBytes bound the text and images in the reply; what lies
	// between is one timeline.Elided. 0 means DefaultReplyBytes each. A daemon
	// uses its own.
	HeadBytes, TailBytes int
}

// DefaultReplyBytes is half of what a reply holds at most, in bytes.
const DefaultReplyBytes = 64 << 10

// Until waits at most d.
func Until(d time.Duration) *WaitOptions { return &WaitOptions{Until: d} }

// A Reply is what happened between a caller's cursor and now.
type Reply struct {
	Session     string           `json:"session"`
	Generation  uint64           `json:"generation"`
	Turn        uint64           `json:"turn"`
	State       State            `json:"state"`
	Outcome     timeline.Outcome `json:"outcome,omitempty"` // of Turn; "" while it runs
	Wait        *Wait            `json:"wait,omitempty"`    // set when State is StateWaiting
	Prompt      string           `json:"prompt,omitempty"`  // what the runtime would show now
	Elapsed     time.Duration    `json:"-"`                 // elapsed_ms in JSON
	OutputBytes int64            `json:"output_bytes"`      // text that Turn has written so far
	Events      []timeline.Event `json:"events"`
	Next        timeline.Seq     `json:"next"` // the caller's new cursor
}

type plainReply Reply

type wireReply struct {
	plainReply
	ElapsedMS int64 `json:"elapsed_ms"`
}

// MarshalJSON has Elapsed as whole milliseconds.
func (r Reply) MarshalJSON() ([]byte, error) {
	if r.Events == nil {
		r.Events = []timeline.Event{}
	}
	return json.Marshal(wireReply{plainReply(r), r.Elapsed.Milliseconds()})
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (r *Reply) UnmarshalJSON(b []byte) error {
	var w wireReply
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*r = Reply(w.plainReply)
	r.Elapsed = time.Duration(w.ElapsedMS) * time.Millisecond
	return nil
}

// Text renders the reply for a reader of text, as timeline.Render does. It is
// shortened as for a model; Events has everything that the reply holds.
func (r Reply) Text() string { return timeline.Render(r.Events, nil).Text() }

// InterruptResult says what an interrupt led to.
type InterruptResult string

const (
	InterruptIdle       InterruptResult = "idle"        // the turn is over
	InterruptWaiting    InterruptResult = "waiting"     // the turn asks for input again
	InterruptPending    InterruptResult = "pending"     // sent, and nothing came of it yet
	InterruptStale      InterruptResult = "stale"       // that turn is not the active one
	InterruptNotRunning InterruptResult = "not running" // no turn is active
)

// A Completion says what may stand in place of text[Start:cursor].
type Completion struct {
	Start   int      `json:"start"` // bytes
	Matches []string `json:"matches"`
}

// ParseStatus says whether a text is a whole input.
type ParseStatus string

const (
	ParseComplete   ParseStatus = "complete"
	ParseIncomplete ParseStatus = "incomplete" // more lines are needed
	ParseInvalid    ParseStatus = "invalid"    // no further line can mend it
	ParseUnknown    ParseStatus = "unknown"    // the worker did not say in time
)

// Variables is what user code has made, the newest first, functions and classes
// behind the data.
type Variables struct {
	List []Variable `json:"variables"` // at most 200
	More int        `json:"more"`      // how many are not in List
}

// A Variable is a name and what it stands for.
type Variable struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape string `json:"shape,omitempty"` // as the language counts: "12", "(3, 4)"; empty when it has none
	Bytes uint64 `json:"bytes,omitempty"` // what the value itself takes; 0 when unknown
}

// An OutputQuery asks for lines of the rendered output: those that match Grep, a
// regular expression of package regexp, or those from From to To, counted from 1. The
// zero value only counts the lines.
type OutputQuery struct {
	Grep string `json:"grep,omitempty"`
	Max  int    `json:"max,omitempty"` // matches, at most MaxMatches; 0 means DefaultMatches
	From int    `json:"from,omitempty"`
	To   int    `json:"to,omitempty"`
}

// DefaultMatches and MaxMatches are how many lines Grep finds.
const DefaultMatches, MaxMatches = 200, 5000

// Output is lines of the rendered output.
type Output struct {
	Lines []timeline.Line `json:"lines"`
	Total int             `json:"total"` // finished lines that there are
}

// Size is a terminal's size in characters.
type Size struct{ Rows, Cols uint16 }
