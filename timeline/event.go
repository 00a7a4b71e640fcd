package timeline

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Seq numbers the events of one Log: from 1, without holes, never repeated.
// As a cursor it means "everything up to and including this one is known".
type Seq uint64

// An Event is one entry of a timeline. It is immutable once appended.
type Event struct {
	Seq          Seq
	At           time.Time
	Generation   uint64 // which worker of the session; 0 before the first
	Turn         uint64 // the turn it belongs to, or the last one when Between
	BetweenTurns bool   // it arrived while no turn was active
	Silent       bool   // its turn is silent: a tool asked for it; see Unseen
	// Line is the line of the output file in which the event begins, from 1. Readers fill it
	// in. It is 0 while unknown, and without a file.
	Line int
	Body Body
}

// A Body is one of the structs below, by value.
type Body interface{ isBody() }

// Stream is the stream of the runtime to which text was written. Text that child
// processes write to the terminal counts as Stdout.
type Stream uint8

const (
	Stdout Stream = iota
	Stderr
)

// TextKind says what text is beside being output.
type TextKind string

const (
	TextResult    TextKind = "result"    // the echo of a value
	TextTraceback TextKind = "traceback" // the report of the error that ended the turn
)

// Outcome is how a turn ended; "" while it runs.
type Outcome string

const (
	OutcomeOK          Outcome = "ok"
	OutcomeError       Outcome = "error"
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeEnded       Outcome = "ended" // its worker ended
)

// InputKind says what kind of input a wait asks for.
type InputKind string

const (
	InputKindLine     InputKind = "line"     // a line of input
	InputKindSecret   InputKind = "secret"   // a line that must not be shown or logged
	InputKindContinue InputKind = "continue" // more code: what came so far is incomplete
	InputKindDebugger InputKind = "debugger" // a command for a debugger
	// InputKindPermission waits for a person's decision about what code may touch. No input
	// answers it.
	InputKindPermission InputKind = "permission"
	// InputKindForm waits until a person fills in what a server of tools asks, or declines it.
	InputKindForm InputKind = "form"
)

type (
	// Text is raw bytes, exactly as written; a chunk may end inside a character.
	Text struct {
		Stream Stream
		Data   []byte
		Kind   TextKind // "" for other text
	}

	// Display is something to show: the same content in several types. A picture is one
	// with one type.
	Display struct {
		Data   map[string][]byte // by MIME type; text and JSON are UTF-8
		Meta   []byte            // a JSON object by MIME type; may be empty
		ID     string            // names it for updates; may be empty
		Update bool              // replaces the last one of ID, if there is one
		Result bool              // it is the turn's value, whose echo is text of kind TextResult before it
		Title  string
		// Omitted names the types that a reader has left out of Data.
		Omitted map[string]Blob

		digests map[string]digest    // of the larger ones in Data; a log makes them
		unread  map[string]fileRange // large data that is in the events file and was not read yet
	}

	// OutputCleared takes back what the turn has shown. Readers that keep a record ignore it.
	OutputCleared struct {
		Wait bool // only when the next output of the turn comes
	}

	// TurnStarted opens a turn.
	TurnStarted struct {
		Input      []byte // the first MaxInputBytes of it
		InputBytes int    // how long the whole input was
		Author     string // who submitted it; "" when unknown
	}

	// TurnEnded closes a turn.
	TurnEnded struct {
		Outcome Outcome
		Name    string // the language's name of the error, when there was one
		Message string // of the error; of OutcomeEnded, why the worker ended, as WorkerExited.FullReason
		Code    int    // of OutcomeEnded, as in WorkerExited: the exit status of the worker; -1 when there is none
		Signal  string // of OutcomeEnded, as in WorkerExited: what killed the worker, "SIGKILL"
		Prompt  string
		Elapsed time.Duration
	}

	// InputRequested says that something asks for standard input, or of a person. Its
	// event's Seq is the wait's public id.
	InputRequested struct {
		Prompt       string
		Kind         InputKind
		Terminal     bool         // seen at the terminal, not asked by the runtime
		Reader       string       // Terminal: the reading program
		PermissionID uint64       // InputKindPermission: the number of the permission
		Denied       AccessDenied // InputKindPermission: what is refused without it
	}

	// InputRequestEnded says that the wait with this id is over.
	InputRequestEnded struct {
		Request Seq
	}

	// InputLine marks where a line of input was handed over. Text is empty when Secret.
	InputLine struct {
		Prompt string
		Text   string
		Secret bool
		Author string
	}

	// Interrupt says that somebody asked to interrupt the turn.
	Interrupt struct {
		Level  int
		Author string
	}

	// Progress is reported by the runtime.
	Progress struct {
		Progress float64
		Total    float64 // 0 when unknown
		Message  string
	}

	// FullScreenChanged says that a program has taken the keys of a person's terminal, or given them
	// back. Its text between the two draws on the whole screen.
	FullScreenChanged struct {
		On bool
	}

	// Preparation says how far the work is that must be done before a worker can
	// start. It is over when Done equals Total, or when its generation ends. Done
	// never shrinks.
	Preparation struct {
		Name        string // it is for: "numpy, pandas"; "" means a part of the worker
		Message     string // one printable line; may be empty
		Done, Total int64  // in a unit of its own; Total is 0 while it is not known
	}

	// Call says which function of the host code has called, and what came of it: all calls
	// of one function that ended since the last such event.
	Call struct {
		Name      string
		Count     int
		Failed    int   // ended by an error that is not a cancel
		Cancelled int   // their callers were interrupted, or are gone
		Sent      int64 // bytes of arguments
		Received  int64 // bytes of results
		// Elapsed is how long at least one of them was under way.
		Elapsed time.Duration
	}

	// Notice is a sentence from the supervisor to the readers of the session.
	Notice struct {
		Message string
	}

	// AccessDenied says what was refused to code, by its sandbox or, for a Call, because no person
	// has allowed it. One of Path, Host and Call is set.
	AccessDenied struct {
		Op           string `json:"op"`                      // "write", "create", "remove", "rename", "change" (a mode), "set" (a setting of git), "read", "connect" or "call"
		Path         string `json:"path,omitempty"`          // the file
		Host         string `json:"host,omitempty"`          // "name:port"
		ChildProgram string `json:"child_program,omitempty"` // the program's name, if it was a child

		Call        string `json:"call,omitempty"`        // the function of the host, "github.search_issues"
		Detail      string `json:"detail,omitempty"`      // its arguments, in short; for "set" the name of the setting
		Destructive bool   `json:"destructive,omitempty"` // only a right that names Call in full lets it go on

		// Hint is the command with which a person allows it; "" if nothing does.
		Hint string `json:"hint,omitempty"`
	}

	// AccessGranted says that a person has given the session a right. One of Read, Write, Host and
	// Call is set.
	AccessGranted struct {
		Read   string // a file or directory that it sees from now on
		Write  string // one that it may write
		Host   string // a pattern of hosts that it may reach
		Call   string // a function of the host that it may call, or "group.*"
		Always bool   // for later sessions of the workspace, too
		Author string // who gave it; "" when unknown
	}

	// Limit says that the session came close to one of its limits, or met it.
	Limit struct {
		Kind        LimitKind
		Used        int64 // bytes, processes, or for turns nanoseconds
		Max         int64
		AllSessions bool      // of all sessions together
		Step        LimitStep // what was done about it
		// Program is the one that was ended, when Did is LimitEnded.
		Program string
	}

	// WorkerStarted says that a worker is starting.
	WorkerStarted struct {
		Worker string // spec name and executable
	}

	// WorkerExited is the death report of a worker.
	WorkerExited struct {
		Reason   string // one line: "exit status 3", "killed by SIGKILL", …
		ExitCode int    // its exit status; -1 when there is none
		Signal   string // what killed it, "SIGKILL"; "" when it exited
		Message  string // what the runtime said about it, may be empty
		// Clean is true when the runtime ended itself or was asked to.
		Clean bool
		// NeverReady is true when it ended by itself before it could take an input.
		NeverReady   bool
		LastLine     string // last line of the input that was running; may be empty
		PeakRSSBytes int64  // bytes; 0 when unknown
	}

	// Gap stands for events that were dropped; it is made by readers, never appended.
	Gap struct {
		From, To Seq   // inclusive
		Bytes    int64 // of text and displays
	}

	// Omitted stands for events that were left out of a Window on purpose and are
	// still on disk; it is made by Window, never appended.
	Omitted struct {
		From, To  Seq
		Bytes     int64
		FirstLine int // lines of the output file, from 1; 0 without a file
		LastLine  int
	}
)

// IsUnseen reports whether an event is what a silent turn did. Readers that show a session to a
// person or a model skip it. They show events of the session itself that came meanwhile.
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

// IsDone reports whether nothing has to be made any more.
func (p Preparation) IsDone() bool { return p.Total > 0 && p.Done == p.Total }

// Text names the thing being made, and then the tool's last message.
func (p Preparation) Text() string {
	switch {
	case p.Name == "" && p.Message == "":
		return "the worker"
	case p.Name == "" || p.Message == "":
		return p.Name + p.Message
	}
	return p.Name + ": " + p.Message
}

// String says what was refused: "write /etc/hosts (by touch)".
func (d AccessDenied) String() string {
	if d.Call != "" {
		return d.Op + " " + QuoteName(d.Call) + "(" + EscapeInvisible(d.Detail) + ")"
	}
	s := d.Op + " "
	if d.Detail != "" {
		s += QuoteName(d.Detail) + " in "
	}
	s += QuoteName(d.Path + d.Host)
	if d.ChildProgram != "" {
		s += " (by " + QuoteName(d.ChildProgram) + ")"
	}
	return s
}

// QuoteName quotes a name that could pass for something else: one with spaces, or with
// characters that are not seen.
func QuoteName(name string) string {
	quoted := strconv.Quote(name)
	quoted = EscapeInvisible(quoted[1 : len(quoted)-1])
	if quoted == name && !strings.ContainsRune(name, ' ') {
		return name
	}
	return `"` + quoted + `"`
}

// EscapeInvisible returns a text in which codes stand for all that is not seen in its place: control
// characters, those that are invisible or blank, except spaces, those that change the direction of
// others, bytes that are no characters, and a mark at the beginning, which changes what is before it.
func EscapeInvisible(text string) string {
	var b strings.Builder
	for left := text; left != ""; {
		r, n := utf8.DecodeRuneInString(left)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, left[0])
		case isVisible(r) && (b.Len() > 0 || !unicode.Is(unicode.M, r)):
			b.WriteString(left[:n])
		default:
			code := strconv.QuoteRuneToASCII(r)
			b.WriteString(code[1 : len(code)-1])
		}
		left = left[n:]
	}
	return b.String()
}

// blankRunes are characters that look like spaces, and are symbols, letters or marks for Unicode.
const blankRunes = "\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159"

func isVisible(r rune) bool {
	return strconv.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) && !strings.ContainsRune(blankRunes, r)
}

// String says what was given: "write /data, always".
func (g AccessGranted) String() string {
	s := "write " + QuoteName(g.Write)
	if g.Read != "" {
		s = "read " + QuoteName(g.Read)
	}
	if g.Host != "" {
		s = "connect " + QuoteName(g.Host)
	}
	if g.Call != "" {
		s = "call " + QuoteName(g.Call)
	}
	if g.Always {
		s += ", always"
	}
	return s
}

func (d AccessDenied) noticeText() string {
	s := "the sandbox refused: " + d.String()
	if d.Call != "" {
		s = "not allowed: " + d.String()
	}
	switch {
	case d.Hint != "":
		s += "; a person can allow it with: " + d.Hint
	case d.Call == "" && d.Detail != "":
		s += "; a person can run the same command outside of the sandbox"
	}
	return s
}

func (g AccessGranted) noticeText() string {
	who := g.Author
	if who == "" {
		who = "a person"
	}
	return who + " allowed: " + g.String()
}

// String says in a few words what was called: "called query × 40, 2 failed, 3.1 s".
func (c Call) String() string {
	text := "called " + QuoteName(c.Name)
	if c.Count > 1 {
		text += fmt.Sprintf(" × %d", c.Count)
	}
	for _, part := range []struct {
		n    int
		word string
	}{{c.Failed, "failed"}, {c.Cancelled, "cancelled"}} {
		switch {
		case part.n > 0 && c.Count == 1:
			text += ", " + part.word
		case part.n > 0:
			text += fmt.Sprintf(", %d %s", part.n, part.word)
		}
	}
	switch {
	case c.Elapsed < 10*time.Millisecond:
		return text
	case c.Elapsed < 100*time.Second:
		return text + fmt.Sprintf(", %.2g s", c.Elapsed.Seconds())
	}
	return text + ", " + c.Elapsed.Round(time.Second).String()
}

// MaxInputBytes bounds TurnStarted.Input.
const MaxInputBytes = 64 << 10

func (Text) isBody()              {}
func (Display) isBody()           {}
func (OutputCleared) isBody()     {}
func (FullScreenChanged) isBody() {}
func (TurnStarted) isBody()       {}
func (TurnEnded) isBody()         {}
func (InputRequested) isBody()    {}
func (InputRequestEnded) isBody() {}
func (InputLine) isBody()         {}
func (Interrupt) isBody()         {}
func (Progress) isBody()          {}
func (Preparation) isBody()       {}
func (Call) isBody()              {}
func (Notice) isBody()            {}
func (Limit) isBody()             {}
func (AccessDenied) isBody()      {}
func (AccessGranted) isBody()     {}
func (WorkerStarted) isBody()     {}
func (WorkerExited) isBody()      {}
func (Gap) isBody()               {}
func (Omitted) isBody()           {}
