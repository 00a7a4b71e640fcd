package session

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// Info describes a session at one moment.
type Info struct {
	Name              string        `json:"name"`
	Language          string        `json:"language"` // "" while unknown
	State             State         `json:"state"`
	StateSince        time.Time     `json:"state_since"`                 // when State was reached
	PreparationError  string        `json:"preparation_error,omitempty"` // why the preparation failed
	Packages          []string      `json:"packages,omitempty"`          // packages that were requested for it
	Generation        uint64        `json:"generation"`
	Turn              uint64        `json:"turn"`                    // the active turn, or the last one
	TurnElapsed       time.Duration `json:"-"`                       // how long the active turn has run; 0 when none does. running_ms in JSON
	InputRequest      *InputRequest `json:"input_request,omitempty"` // set when State is StateWaiting
	QueuedInputs      int           `json:"queued_inputs,omitempty"` // how many wait for their turn; see TurnQueuer
	Listener          *Listener     `json:"listener,omitempty"`      // a program that would read keys now; nil if none is seen
	Prompt            string        `json:"prompt,omitempty"`
	OpenedAt          time.Time     `json:"opened_at"`
	PID               int           `json:"pid,omitempty"` // of the worker; 0 when there is none
	MemoryBytes       int64         `json:"memory_bytes,omitempty"`
	RuntimeVersion    string        `json:"runtime_version,omitempty"` // its version; "" until the worker is ready
	Executable        string        `json:"executable,omitempty"`
	ExecutableSource  string        `json:"executable_source,omitempty"`  // how Executable was chosen
	Notice            string        `json:"notice,omitempty"`             // a warning about that choice; see workers.Spec
	Dir               string        `json:"dir,omitempty"`                // the working directory of its workers
	Sandbox           string        `json:"sandbox,omitempty"`            // its sandbox; "" when it has none
	AcceptedMechanism string        `json:"accepted_mechanism,omitempty"` // the mechanism that its user accepted in place of namespaces, if its worker uses it
	Grants            []Grant       `json:"granted,omitempty"`            // access that users granted in addition; see Session.Allow
	Limits            string        `json:"limits,omitempty"`             // the limits as text; "" when there are none
	OutputPath        string        `json:"output_path,omitempty"`        // the rendered transcript; "" when there is none
	CrashedTranscript string        `json:"crashed_transcript,omitempty"` // the transcript of an earlier session with this name whose program was killed
	LastSeq           timeline.Seq  `json:"last_seq"`
	Watchers          int           `json:"watchers"`                    // in a daemon
	WriteLockHolder   string        `json:"write_lock_holder,omitempty"` // the author who holds the write lock, in a daemon
	Functions         int           `json:"functions,omitempty"`         // how many functions clients give to its code, in a daemon

	// Continuation is the prompt for the further lines of an input, if it is not the default one
	// of the language.
	Continuation string `json:"continuation,omitempty"`
}

// Confinement describes the sandbox of the session in a few words: "full" when it has none.
func (i Info) Confinement() string {
	switch {
	case i.Sandbox == "":
		return "full"
	case i.AcceptedMechanism != "":
		return i.Sandbox + " (enforced by " + i.AcceptedMechanism + " only)"
	}
	return i.Sandbox
}

type infoFields Info

type infoJSON struct {
	infoFields
	RunningMS int64 `json:"running_ms,omitempty"`
}

// MarshalJSON writes TurnElapsed in whole milliseconds.
func (i Info) MarshalJSON() ([]byte, error) {
	return json.Marshal(infoJSON{infoFields(i), i.TurnElapsed.Milliseconds()})
}

// UnmarshalJSON reverses MarshalJSON.
func (i *Info) UnmarshalJSON(b []byte) error {
	var w infoJSON
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*i = Info(w.infoFields)
	i.TurnElapsed = time.Duration(w.RunningMS) * time.Millisecond
	return nil
}

// An InputRequest says that the active turn asks for standard input, or asks the user for a
// permission or to fill in the form of an MCP server.
type InputRequest struct {
	ID       timeline.Seq       `json:"id"`
	Turn     uint64             `json:"turn"`
	Prompt   string             `json:"prompt"`
	Kind     timeline.InputKind `json:"kind"`
	Secret   bool               `json:"secret,omitempty"`   // the answer must not be shown or logged
	Terminal bool               `json:"terminal,omitempty"` // a program reads the terminal; the runtime did not ask
	Reader   string             `json:"reader,omitempty"`   // Terminal: that program's name
	Raw      bool               `json:"raw,omitempty"`      // Terminal: it reads each key, not lines; see Keys
	Polls    bool               `json:"polls,omitempty"`    // Terminal: judged, because the program polls; it may continue without input

	Permission *PermissionRequest `json:"permission,omitempty"` // set if Kind is timeline.InputKindPermission
	Form       *Form              `json:"form,omitempty"`       // set if Kind is timeline.InputKindForm
}

// NeedsUser reports whether only the user may answer the request.
func (r *InputRequest) NeedsUser() bool { return r.Permission != nil || r.Form != nil }

// An AccessDenied is an access that was denied to code, by its sandbox or because no user has
// allowed a call.
type AccessDenied = timeline.AccessDenied

// A PermissionRequest asks for access that the sandbox denies to a program, or for a host function
// that no user has allowed. The program or function is blocked until the user has decided. The
// request is part of an InputRequest of kind timeline.InputKindPermission. The ID never repeats in
// a session. A call that starts again after an interrupt asks under its former ID.
type PermissionRequest struct {
	ID uint64 `json:"id"`
	AccessDenied
	// Grant is the access that would let the call continue.
	Grant Grant `json:"grant"`
	// Wider is access that would also allow similar calls. It is nil if there is none.
	Wider *Grant `json:"wider,omitempty"`
}

// FileGrant returns a grant of only the file that the call writes. It is nil if the call needs more,
// such as a new name in a directory.
func (p PermissionRequest) FileGrant() *Grant {
	if p.Op != "write" || p.Path == "" || p.Grant.Write == "" || p.Grant.Write == p.Path {
		return nil
	}
	return &Grant{Write: p.Path}
}

// Question returns the question for the user, in one line.
func (p PermissionRequest) Question() string {
	if p.Call != "" {
		kind := ""
		if p.Destructive {
			kind = ", which its server marks as destructive"
		}
		return fmt.Sprintf("code wants to %s%s. Allow it?", p.AccessDenied, kind)
	}
	return fmt.Sprintf("the sandbox holds a call of code: %s. Allow it to %s?", p.AccessDenied, timeline.AccessGranted{Read: p.Grant.Read, Write: p.Grant.Write, Host: p.Grant.Host})
}

// A Grant is access that a user grants to a session. Exactly one of Read, Write, Host and Call
// is set. Read, Write and Host are for a session with a sandbox.
type Grant struct {
	Read   string `json:"read,omitempty"`   // the absolute, real path of a file or directory to read
	Write  string `json:"write,omitempty"`  // the absolute, real path of a file or directory to write
	Host   string `json:"host,omitempty"`   // "example.org", "*.example.org", "example.org:5432"
	Call   string `json:"call,omitempty"`   // "github.search_issues", or "github.*" for all that are not destructive
	Always bool   `json:"always,omitempty"` // later sessions of the workspace get it, too

	// Accept repeats the real path of Write. It is required if programs outside the sandbox
	// would run or read what is written there; see KindUnconfirmed.
	Accept string `json:"accept,omitempty"`
	// Identity distinguishes the file or directory from a later one at the same path; "" accepts
	// either. An error of KindUnconfirmed contains it.
	Identity string `json:"identity,omitempty"`
}

// Input answers an input request.
type Input struct {
	Data []byte // must end with a newline for a program that reads lines
	EOF  bool   // one end of file after Data
}

// WaitOptions bound a Wait and its reply.
type WaitOptions struct {
	// Timeout bounds the wait; 0 means that only ctx bounds it.
	Timeout time.Duration

	// Poll makes Wait return immediately.
	Poll bool

	// After is the caller's cursor: the reply has the events after it. 0 means from the start of
	// the turn, or for turn 0 from the start of the session. The first turn of a worker begins
	// with the end of the previous worker, whose variables are gone, and the notices of the
	// start. If the turn did not run because its worker ended, it also has everything that the
	// worker wrote.
	After timeline.Seq

	// HeadBytes and TailBytes bound the text and images in the reply; the part in between is one
	// timeline.Omitted. 0 means DefaultReplyBytes each. A daemon has its own bounds.
	HeadBytes, TailBytes int
}

// DefaultReplyBytes bounds each half of a reply, in bytes.
const DefaultReplyBytes = 64 << 10

// WaitAtMost returns options for a wait of at most d.
func WaitAtMost(d time.Duration) *WaitOptions { return &WaitOptions{Timeout: d} }

// A Reply contains what happened between a caller's cursor and now.
type Reply struct {
	Session      string           `json:"session"`
	Generation   uint64           `json:"generation"`
	Turn         uint64           `json:"turn"`
	State        State            `json:"state"`
	Outcome      timeline.Outcome `json:"outcome,omitempty"`       // of Turn; "" while it runs
	InputRequest *InputRequest    `json:"input_request,omitempty"` // set when State is StateWaiting
	Prompt       string           `json:"prompt,omitempty"`        // the prompt that the runtime would show now
	Elapsed      time.Duration    `json:"-"`                       // elapsed_ms in JSON
	Listener     *Listener        `json:"listener,omitempty"`      // a program that would read keys now; nil if none is seen
	UnreadKeys   int              `json:"unread_keys,omitempty"`   // bytes that were typed and that no program has read so far
	PendingCalls []PendingCall    `json:"pending_calls,omitempty"` // host functions that are running
	OutputBytes  int64            `json:"output_bytes"`            // size of the text that Turn has written so far
	Events       []timeline.Event `json:"events"`
	Next         timeline.Seq     `json:"next"` // the caller's new cursor
}

// PendingCall is a host function with running calls from code in the session.
type PendingCall struct {
	Name    string    `json:"name"`
	Running int       `json:"running"` // number of running calls
	Since   time.Time `json:"since"`   // start of the time in which at least one is running
}

type replyFields Reply

type replyJSON struct {
	replyFields
	ElapsedMS int64 `json:"elapsed_ms"`
}

// MarshalJSON writes Elapsed as whole milliseconds.
func (r Reply) MarshalJSON() ([]byte, error) {
	if r.Events == nil {
		r.Events = []timeline.Event{}
	}
	return json.Marshal(replyJSON{replyFields(r), r.Elapsed.Milliseconds()})
}

// UnmarshalJSON reverses MarshalJSON.
func (r *Reply) UnmarshalJSON(b []byte) error {
	var w replyJSON
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*r = Reply(w.replyFields)
	r.Elapsed = time.Duration(w.ElapsedMS) * time.Millisecond
	return nil
}

// Text renders the reply as render.Events does: shortened, for a model. Events has the whole
// reply.
func (r Reply) Text() string { return render.Events(r.Events, nil).Text() }

// InterruptResult is the effect of an interrupt.
type InterruptResult string

const (
	InterruptIdle       InterruptResult = "idle"        // the turn is over
	InterruptWaiting    InterruptResult = "waiting"     // the turn asks for input again
	InterruptPending    InterruptResult = "pending"     // sent, but without effect so far
	InterruptStale      InterruptResult = "stale"       // that turn is not the active one
	InterruptNotRunning InterruptResult = "not running" // no turn is active
)

// A Completion lists texts that can replace text[Start:cursor].
type Completion struct {
	Start   int      `json:"start"` // bytes
	Matches []string `json:"matches"`
}

// ParseStatus says whether a text is a complete input.
type ParseStatus string

const (
	ParseComplete   ParseStatus = "complete"   // the text is a whole input
	ParseIncomplete ParseStatus = "incomplete" // more lines are needed
	ParseInvalid    ParseStatus = "invalid"    // more lines cannot make it valid
	ParseUnknown    ParseStatus = "unknown"    // the worker did not answer in time
)

// Variables lists what user code has defined: the newest first, data before functions and
// classes.
type Variables struct {
	List []Variable `json:"variables"` // at most 200
	More int        `json:"more"`      // how many are not in List
}

// A Variable is a name with an abbreviated value.
type Variable struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape string `json:"shape,omitempty"` // in the terms of the language: "12", "(3, 4)"; empty when it has none
	Bytes uint64 `json:"bytes,omitempty"` // size of the value itself; 0 when unknown
}

// An Inspection describes one name in a runtime.
type Inspection struct {
	Found bool              `json:"found"`
	Data  map[string]string `json:"data,omitempty"` // by MIME type, text/plain at least
}

// An OutputQuery selects lines of the rendered output: those that match Grep, a regular
// expression of package regexp, or those from From to To, counted from 1. The zero value only
// counts the lines.
type OutputQuery struct {
	Grep string `json:"grep,omitempty"`
	Max  int    `json:"max,omitempty"` // matches, at most MaxMatches; 0 means DefaultMatches
	From int    `json:"from,omitempty"`
	To   int    `json:"to,omitempty"`
}

// DefaultMatches and MaxMatches bound the number of lines that OutputQuery.Grep finds.
const DefaultMatches, MaxMatches = 200, 5000

// Output contains lines of the rendered output.
type Output struct {
	Lines []timeline.Line `json:"lines"`
	Total int             `json:"total"` // number of finished lines
}
