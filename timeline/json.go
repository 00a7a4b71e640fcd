package timeline

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// eventJSON is the JSON form of an Event. Type says which of the other fields are set.
type eventJSON struct {
	Seq          Seq       `json:"seq"`
	At           time.Time `json:"at,omitzero"`
	Generation   uint64    `json:"generation,omitempty"`
	Turn         uint64    `json:"turn"`
	BetweenTurns bool      `json:"between_turns,omitempty"`
	Silent       bool      `json:"silent,omitempty"`
	Line         int       `json:"line,omitempty"`
	Type         string    `json:"type"`

	Stream string   `json:"stream,omitempty"` // "stderr"; empty means stdout
	Text   string   `json:"text,omitempty"`   // of text, input_line
	Data   dataJSON `json:"data,omitzero"`    // of a display, and of text that is not UTF-8

	Meta    json.RawMessage `json:"meta,omitempty"`
	ID      string          `json:"id,omitempty"`
	Update  bool            `json:"update,omitempty"`
	Result  bool            `json:"result,omitempty"`
	Title   string          `json:"title,omitempty"`
	Omitted map[string]Blob `json:"omitted,omitempty"`

	Input  string `json:"input,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	Author string `json:"author,omitempty"`

	Prompt       string `json:"prompt,omitempty"`
	Kind         string `json:"kind,omitempty"` // of an input request, of text, of a limit
	Secret       bool   `json:"secret,omitempty"`
	Terminal     bool   `json:"terminal,omitempty"`
	Reader       string `json:"reader,omitempty"`
	Wait         bool   `json:"wait,omitempty"`
	InputRequest Seq    `json:"input_request,omitempty"` // the ID of a request that has ended

	On bool `json:"on,omitempty"`

	PermissionID uint64 `json:"permission_id,omitempty"`
	Op           string `json:"op,omitempty"`
	Path         string `json:"path,omitempty"`
	Host         string `json:"host,omitempty"`
	ChildProgram string `json:"child_program,omitempty"`
	Hint         string `json:"hint,omitempty"`
	Call         string `json:"call,omitempty"`
	Detail       string `json:"detail,omitempty"`
	Destructive  bool   `json:"destructive,omitempty"`
	Read         string `json:"read,omitempty"`
	Write        string `json:"write,omitempty"`
	Always       bool   `json:"always,omitempty"`

	Outcome   Outcome `json:"outcome,omitempty"`
	Name      string  `json:"name,omitempty"`
	Message   string  `json:"message,omitempty"`
	ElapsedMS int64   `json:"elapsed_ms,omitempty"`

	Used        int64     `json:"used,omitempty"`
	Max         int64     `json:"max,omitempty"`
	AllSessions bool      `json:"all_sessions,omitempty"`
	Step        LimitStep `json:"step,omitempty"`
	Program     string    `json:"program,omitempty"`

	Count     int   `json:"count,omitempty"`
	Failed    int   `json:"failed,omitempty"`
	Cancelled int   `json:"cancelled,omitempty"`
	Sent      int64 `json:"sent,omitempty"`
	Received  int64 `json:"received,omitempty"`

	Level    int     `json:"level,omitempty"`
	Progress float64 `json:"progress,omitempty"`
	Total    float64 `json:"total,omitempty"`

	Worker       string `json:"worker,omitempty"`
	Reason       string `json:"reason,omitempty"`
	ExitCode     int    `json:"exit_code,omitempty"`
	Signal       string `json:"signal,omitempty"`
	Clean        bool   `json:"clean,omitempty"`
	LastLine     string `json:"last_line,omitempty"`
	NeverReady   bool   `json:"never_ready,omitempty"`
	PeakRSSBytes int64  `json:"peak_rss_bytes,omitempty"`

	From      Seq `json:"from,omitempty"`
	To        Seq `json:"to,omitempty"`
	FirstLine int `json:"first_line,omitempty"`
	EndLine   int `json:"end_line,omitempty"`
}

// The event types in JSON.
const (
	typeText              = "text"
	typeDisplay           = "display"
	typeOutputCleared     = "output_cleared"
	typeFullScreenChanged = "full_screen_changed"
	typeInputLine         = "input_line"
	typeTurnStarted       = "turn_started"
	typeTurnEnded         = "turn_ended"
	typeInputRequested    = "input_requested"
	typeInputRequestEnded = "input_request_ended"
	typeInterrupt         = "interrupt"
	typeProgress          = "progress"
	typePreparation       = "preparation"
	typeCall              = "call"
	typeNotice            = "notice"
	typeAccessDenied      = "access_denied"
	typeAccessGranted     = "access_granted"
	typeLimit             = "limit"
	typeWorkerStarted     = "worker_started"
	typeWorkerExited      = "worker_exited"
	typeGap               = "gap"     // events that were lost
	typeOmitted           = "omitted" // events that were left out and can be requested
)

// Type returns the name of the event's type, as in JSON.
func (e Event) Type() string { return e.toJSON().Type }

// MarshalJSON encodes the event as docs/daemon.md describes.
func (e Event) MarshalJSON() ([]byte, error) { return json.Marshal(e.toJSON()) }

// UnmarshalJSON reverses MarshalJSON. An event of an unknown type becomes a Notice.
func (e *Event) UnmarshalJSON(b []byte) error {
	var w eventJSON
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = w.toEvent()
	return nil
}

func (e Event) toJSON() eventJSON {
	w := eventJSON{Seq: e.Seq, At: e.At, Generation: e.Generation, Turn: e.Turn, BetweenTurns: e.BetweenTurns, Silent: e.Silent, Line: e.Line}
	switch b := e.Body.(type) {
	case Text:
		w.Type = typeText
		if b.Stream == Stderr {
			w.Stream = "stderr"
		}
		if utf8.Valid(b.Data) {
			w.Text = string(b.Data)
		} else {
			w.Data.bytes = b.Data
		}
		w.Kind = string(b.Kind)
	case Display:
		w.Type, w.Data.types, w.ID, w.Update, w.Result, w.Title, w.Omitted = typeDisplay, b.Data, b.ID, b.Update, b.Result, b.Title, b.Omitted
		if json.Valid(b.Meta) {
			w.Meta = b.Meta
		}
		w.Message = b.labelText() // a client that does not know the type shows it as a notice
	case OutputCleared:
		w.Type, w.Wait = typeOutputCleared, b.Wait
	case FullScreenChanged:
		w.Type, w.On = typeFullScreenChanged, b.On
	case InputLine:
		w.Type, w.Prompt, w.Text, w.Secret, w.Author = typeInputLine, b.Prompt, b.Text, b.Secret, b.Author
	case TurnStarted:
		w.Type, w.Input, w.Bytes, w.Author = typeTurnStarted, string(b.Input), int64(b.InputBytes), b.Author
	case TurnEnded:
		w.Type, w.Outcome, w.Name, w.Message, w.Prompt, w.ElapsedMS = typeTurnEnded, b.Outcome, b.Name, b.Message, b.Prompt, b.Elapsed.Milliseconds()
		w.ExitCode, w.Signal = b.Code, b.Signal
	case InputRequested:
		w.Type, w.Prompt, w.Kind, w.Terminal, w.Reader = typeInputRequested, b.Prompt, string(b.Kind), b.Terminal, b.Reader
		w.PermissionID = b.PermissionID
		w.setDenied(b.Denied)
	case InputRequestEnded:
		w.Type, w.InputRequest = typeInputRequestEnded, b.Request
	case Interrupt:
		w.Type, w.Level, w.Author = typeInterrupt, b.Level, b.Author
	case Progress:
		w.Type, w.Progress, w.Total, w.Message = typeProgress, b.Progress, b.Total, b.Message
	case Preparation:
		w.Type, w.Name, w.Progress, w.Total, w.Message = typePreparation, b.Name, float64(b.Done), float64(b.Total), b.Message
	case Call:
		w.Type, w.Name, w.Count, w.Failed, w.Cancelled = typeCall, b.Name, b.Count, b.Failed, b.Cancelled
		w.Sent, w.Received, w.ElapsedMS = b.Sent, b.Received, b.Elapsed.Milliseconds()
	case Notice:
		w.Type, w.Message = typeNotice, b.Message
	case AccessDenied:
		w.Type = typeAccessDenied
		w.setDenied(b)
	case AccessGranted:
		w.Type, w.Read, w.Write, w.Host, w.Call, w.Always, w.Author = typeAccessGranted, b.Read, b.Write, b.Host, b.Call, b.Always, b.Author
	case Limit:
		w.Type, w.Kind, w.Used, w.Max, w.AllSessions, w.Step, w.Program = typeLimit, string(b.Kind), b.Used, b.Max, b.AllSessions, b.Step, b.Program
		w.Message = b.String() // a client that does not know the type shows it as a notice
	case WorkerStarted:
		w.Type, w.Worker = typeWorkerStarted, b.Worker
	case WorkerExited:
		w.Type, w.Reason, w.ExitCode, w.Signal, w.Message = typeWorkerExited, b.Reason, b.ExitCode, b.Signal, b.Message
		w.Clean, w.NeverReady, w.LastLine, w.PeakRSSBytes = b.Clean, b.NeverReady, b.LastLine, b.PeakRSSBytes
	case Gap:
		w.Type, w.From, w.To, w.Bytes = typeGap, b.From, b.To, b.Bytes
	case Omitted:
		w.Type, w.From, w.To, w.Bytes, w.FirstLine, w.EndLine = typeOmitted, b.From, b.To, b.Bytes, b.FirstLine, b.LastLine
	}
	return w
}

func (j eventJSON) toEvent() Event {
	e := Event{Seq: j.Seq, At: j.At, Generation: j.Generation, Turn: j.Turn, BetweenTurns: j.BetweenTurns, Silent: j.Silent, Line: j.Line}
	switch j.Type {
	case typeText:
		b := Text{Data: j.Data.bytes, Kind: TextKind(j.Kind)}
		if j.Stream == "stderr" {
			b.Stream = Stderr
		}
		if b.Data == nil {
			b.Data = []byte(j.Text)
		}
		e.Body = b
	case typeDisplay:
		e.Body = Display{Data: j.Data.types, Meta: j.Meta, ID: j.ID, Update: j.Update, Result: j.Result, Title: j.Title, Omitted: j.Omitted}
	case typeOutputCleared:
		e.Body = OutputCleared{Wait: j.Wait}
	case typeFullScreenChanged:
		e.Body = FullScreenChanged{On: j.On}
	case typeInputLine:
		e.Body = InputLine{Prompt: j.Prompt, Text: j.Text, Secret: j.Secret, Author: j.Author}
	case typeTurnStarted:
		e.Body = TurnStarted{Input: []byte(j.Input), InputBytes: int(j.Bytes), Author: j.Author}
	case typeTurnEnded:
		e.Body = TurnEnded{Outcome: j.Outcome, Name: j.Name, Message: j.Message, Code: j.ExitCode, Signal: j.Signal, Prompt: j.Prompt, Elapsed: time.Duration(j.ElapsedMS) * time.Millisecond}
	case typeInputRequested:
		e.Body = InputRequested{Prompt: j.Prompt, Kind: InputKind(j.Kind), Terminal: j.Terminal, Reader: j.Reader, PermissionID: j.PermissionID, Denied: j.toDenied()}
	case typeInputRequestEnded:
		e.Body = InputRequestEnded{Request: j.InputRequest}
	case typeInterrupt:
		e.Body = Interrupt{Level: j.Level, Author: j.Author}
	case typeProgress:
		e.Body = Progress{Progress: j.Progress, Total: j.Total, Message: j.Message}
	case typePreparation:
		e.Body = Preparation{Name: j.Name, Done: int64(j.Progress), Total: int64(j.Total), Message: j.Message}
	case typeAccessDenied:
		e.Body = j.toDenied()
	case typeAccessGranted:
		e.Body = AccessGranted{Read: j.Read, Write: j.Write, Host: j.Host, Call: j.Call, Always: j.Always, Author: j.Author}
	case typeLimit:
		e.Body = Limit{Kind: LimitKind(j.Kind), Used: j.Used, Max: j.Max, AllSessions: j.AllSessions, Step: j.Step, Program: j.Program}
	case typeCall:
		e.Body = Call{Name: j.Name, Count: j.Count, Failed: j.Failed, Cancelled: j.Cancelled, Sent: j.Sent, Received: j.Received, Elapsed: time.Duration(j.ElapsedMS) * time.Millisecond}
	case typeWorkerStarted:
		e.Body = WorkerStarted{Worker: j.Worker}
	case typeWorkerExited:
		e.Body = WorkerExited{Reason: j.Reason, ExitCode: j.ExitCode, Signal: j.Signal, Message: j.Message, Clean: j.Clean, NeverReady: j.NeverReady, LastLine: j.LastLine, PeakRSSBytes: j.PeakRSSBytes}
	case typeGap:
		e.Body = Gap{From: j.From, To: j.To, Bytes: j.Bytes}
	case typeOmitted:
		e.Body = Omitted{From: j.From, To: j.To, Bytes: j.Bytes, FirstLine: j.FirstLine, LastLine: j.EndLine}
	default:
		e.Body = Notice{Message: j.Message}
	}
	return e
}

// dataJSON holds bytes, in base64, or the types of a display. A type is its text or, if that is
// not valid UTF-8, {"base64": …}.
type dataJSON struct {
	bytes []byte
	types map[string][]byte
}

func (d dataJSON) IsZero() bool { return len(d.bytes) == 0 && d.types == nil }

type base64JSON struct {
	Base64 []byte `json:"base64"`
}

func (d dataJSON) MarshalJSON() ([]byte, error) {
	if d.types == nil {
		return json.Marshal(d.bytes)
	}
	types := make(map[string]any, len(d.types))
	for mime, data := range d.types {
		if utf8.Valid(data) {
			types[mime] = string(data)
		} else {
			types[mime] = base64JSON{data}
		}
	}
	return json.Marshal(types)
}

func (d *dataJSON) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte("{")) {
		return json.Unmarshal(b, &d.bytes)
	}
	var types map[string]json.RawMessage
	if err := json.Unmarshal(b, &types); err != nil {
		return err
	}
	d.types = make(map[string][]byte, len(types))
	for mime, raw := range types {
		var text string
		var coded base64JSON
		err := json.Unmarshal(raw, &text)
		if err != nil {
			err = json.Unmarshal(raw, &coded)
			d.types[mime] = coded.Base64
		} else {
			d.types[mime] = []byte(text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *eventJSON) setDenied(d AccessDenied) {
	j.Op, j.Path, j.Host, j.ChildProgram, j.Hint, j.Call, j.Detail, j.Destructive = d.Op, d.Path, d.Host, d.ChildProgram, d.Hint, d.Call, d.Detail, d.Destructive
}

func (j eventJSON) toDenied() AccessDenied {
	return AccessDenied{Op: j.Op, Path: j.Path, Host: j.Host, ChildProgram: j.ChildProgram, Hint: j.Hint, Call: j.Call, Detail: j.Detail, Destructive: j.Destructive}
}
