package timeline

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// wireEvent is an Event in JSON. Type says which of the other fields there are.
type wireEvent struct {
	Seq        Seq       `json:"seq"`
	At         time.Time `json:"at,omitzero"`
	Generation uint64    `json:"generation,omitempty"`
	Turn       uint64    `json:"turn"`
	Between    bool      `json:"between,omitempty"`
	Silent     bool      `json:"silent,omitempty"`
	Line       int       `json:"line,omitempty"`
	Type       string    `json:"type"`

	Stream string   `json:"stream,omitempty"` // "stderr"; else it is stdout
	Text   string   `json:"text,omitempty"`   // of text, input_line
	Data   wireData `json:"data,omitzero"`    // of a display, and of text that is not UTF-8

	Meta    json.RawMessage `json:"meta,omitempty"`
	ID      string          `json:"id,omitempty"`
	Update  bool            `json:"update,omitempty"`
	Result  bool            `json:"result,omitempty"`
	Title   string          `json:"title,omitempty"`
	LeftOut map[string]Blob `json:"left_out,omitempty"`

	Input  string `json:"input,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	Author string `json:"author,omitempty"`

	Prompt   string   `json:"prompt,omitempty"`
	Kind     string   `json:"kind,omitempty"` // of a wait or of text
	Secret   bool     `json:"secret,omitempty"`
	Terminal bool     `json:"terminal,omitempty"`
	Reader   string   `json:"reader,omitempty"`
	Wait     wireWait `json:"wait,omitzero"` // the id of a wait; of a clear, true

	On bool `json:"on,omitempty"`

	Permission  uint64 `json:"permission,omitempty"`
	Op          string `json:"op,omitempty"`
	Path        string `json:"path,omitempty"`
	Host        string `json:"host,omitempty"`
	By          string `json:"by,omitempty"`
	Remedy      string `json:"remedy,omitempty"`
	Call        string `json:"call,omitempty"`
	With        string `json:"with,omitempty"`
	Destructive bool   `json:"destructive,omitempty"`
	Read        string `json:"read,omitempty"`
	Write       string `json:"write,omitempty"`
	Always      bool   `json:"always,omitempty"`

	Outcome   Outcome `json:"outcome,omitempty"`
	Name      string  `json:"name,omitempty"`
	Message   string  `json:"message,omitempty"`
	ElapsedMS int64   `json:"elapsed_ms,omitempty"`

	What    string    `json:"what,omitempty"`
	Used    int64     `json:"used,omitempty"`
	Max     int64     `json:"max,omitempty"`
	All     bool      `json:"all,omitempty"`
	Did     LimitStep `json:"did,omitempty"`
	Program string    `json:"program,omitempty"`

	Count     int   `json:"count,omitempty"`
	Failed    int   `json:"failed,omitempty"`
	Cancelled int   `json:"cancelled,omitempty"`
	Sent      int64 `json:"sent,omitempty"`
	Received  int64 `json:"received,omitempty"`

	Level    int     `json:"level,omitempty"`
	Progress float64 `json:"progress,omitempty"`
	Total    float64 `json:"total,omitempty"`

	Worker   string `json:"worker,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Code     int    `json:"code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	Clean    bool   `json:"clean,omitempty"`
	LastLine string `json:"last_line,omitempty"`
	Unready  bool   `json:"unready,omitempty"`
	PeakRSS  int64  `json:"peak_rss,omitempty"`

	From      Seq `json:"from,omitempty"`
	To        Seq `json:"to,omitempty"`
	FirstLine int `json:"first_line,omitempty"`
	EndLine   int `json:"end_line,omitempty"`
}

// The types of events in JSON.
const (
	typeText              = "text"
	typeDisplay           = "display"
	typeClear             = "clear"
	typeScreen            = "screen"
	typeInputLine         = "input_line"
	typeTurnStarted       = "turn_started"
	typeTurnEnded         = "turn_ended"
	typeWait              = "wait"
	typeWaitEnded         = "wait_ended"
	typeInterrupt         = "interrupt"
	typeProgress          = "progress"
	typePreparation       = "preparation"
	typeCall              = "call"
	typeNotice            = "notice"
	typeDenied            = "denied"
	typeGranted           = "granted"
	typeLimit             = "limit"
	typeGenerationStarted = "generation_started"
	typeGenerationEnded   = "generation_ended"
	typeGap               = "gap"    // lost events
	typeElided            = "elided" // events that were left out and can be asked for
)

// Type returns the name of the event's kind, as JSON has it.
func (e Event) Type() string { return e.wire().Type }

// MarshalJSON returns the event as docs/daemon.md describes it.
func (e Event) MarshalJSON() ([]byte, error) { return json.Marshal(e.wire()) }

// UnmarshalJSON reverses MarshalJSON. An event of an unknown type is a notice.
func (e *Event) UnmarshalJSON(b []byte) error {
	var w wireEvent
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = w.event()
	return nil
}

func (e Event) wire() wireEvent {
	w := wireEvent{Seq: e.Seq, At: e.At, Generation: e.Generation, Turn: e.Turn, Between: e.Between, Silent: e.Silent, Line: e.Line}
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
		w.Type, w.Data.types, w.ID, w.Update, w.Result, w.Title, w.LeftOut = typeDisplay, b.Data, b.ID, b.Update, b.Result, b.Title, b.LeftOut
		if json.Valid(b.Meta) {
			w.Meta = b.Meta
		}
		w.Message = b.label() // a client that does not know the type shows it as a notice
	case Clear:
		w.Type, w.Wait.flag = typeClear, b.Wait
	case Screen:
		w.Type, w.On = typeScreen, b.On
	case InputLine:
		w.Type, w.Prompt, w.Text, w.Secret, w.Author = typeInputLine, b.Prompt, b.Text, b.Secret, b.Author
	case TurnStarted:
		w.Type, w.Input, w.Bytes, w.Author = typeTurnStarted, string(b.Input), int64(b.Bytes), b.Author
	case TurnEnded:
		w.Type, w.Outcome, w.Name, w.Message, w.Prompt, w.ElapsedMS = typeTurnEnded, b.Outcome, b.Name, b.Message, b.Prompt, b.Elapsed.Milliseconds()
		w.Code, w.Signal = b.Code, b.Signal
	case Wait:
		w.Type, w.Prompt, w.Kind, w.Terminal, w.Reader = typeWait, b.Prompt, string(b.Kind), b.Terminal, b.Reader
		w.Permission = b.Permission
		w.setDenied(b.Asks)
	case WaitEnded:
		w.Type, w.Wait.seq = typeWaitEnded, b.Wait
	case Interrupt:
		w.Type, w.Level, w.Author = typeInterrupt, b.Level, b.Author
	case Progress:
		w.Type, w.Progress, w.Total, w.Message = typeProgress, b.Progress, b.Total, b.Message
	case Preparation:
		w.Type, w.What, w.Progress, w.Total, w.Message = typePreparation, b.What, float64(b.Done), float64(b.Total), b.Message
	case Call:
		w.Type, w.Name, w.Count, w.Failed, w.Cancelled = typeCall, b.Name, b.Count, b.Failed, b.Cancelled
		w.Sent, w.Received, w.ElapsedMS = b.Sent, b.Received, b.Elapsed.Milliseconds()
	case Notice:
		w.Type, w.Message = typeNotice, b.Message
	case Denied:
		w.Type = typeDenied
		w.setDenied(b)
	case Granted:
		w.Type, w.Read, w.Write, w.Host, w.Call, w.Always, w.Author = typeGranted, b.Read, b.Write, b.Host, b.Call, b.Always, b.Author
	case Limit:
		w.Type, w.What, w.Used, w.Max, w.All, w.Did, w.Program = typeLimit, string(b.What), b.Used, b.Max, b.All, b.Did, b.Program
		w.Message = b.String() // a client that does not know the type shows it as a notice
	case GenerationStarted:
		w.Type, w.Worker = typeGenerationStarted, b.Worker
	case GenerationEnded:
		w.Type, w.Reason, w.Code, w.Signal, w.Message = typeGenerationEnded, b.Reason, b.Code, b.Signal, b.Message
		w.Clean, w.Unready, w.LastLine, w.PeakRSS = b.Clean, b.Unready, b.LastLine, b.PeakRSS
	case Gap:
		w.Type, w.From, w.To, w.Bytes = typeGap, b.From, b.To, b.Bytes
	case Elided:
		w.Type, w.From, w.To, w.Bytes, w.FirstLine, w.EndLine = typeElided, b.From, b.To, b.Bytes, b.FirstLine, b.LastLine
	}
	return w
}

func (w wireEvent) event() Event {
	e := Event{Seq: w.Seq, At: w.At, Generation: w.Generation, Turn: w.Turn, Between: w.Between, Silent: w.Silent, Line: w.Line}
	switch w.Type {
	case typeText:
		b := Text{Data: w.Data.bytes, Kind: TextKind(w.Kind)}
		if w.Stream == "stderr" {
			b.Stream = Stderr
		}
		if b.Data == nil {
			b.Data = []byte(w.Text)
		}
		e.Body = b
	case typeDisplay:
		e.Body = Display{Data: w.Data.types, Meta: w.Meta, ID: w.ID, Update: w.Update, Result: w.Result, Title: w.Title, LeftOut: w.LeftOut}
	case typeClear:
		e.Body = Clear{Wait: w.Wait.flag}
	case typeScreen:
		e.Body = Screen{On: w.On}
	case typeInputLine:
		e.Body = InputLine{Prompt: w.Prompt, Text: w.Text, Secret: w.Secret, Author: w.Author}
	case typeTurnStarted:
		e.Body = TurnStarted{Input: []byte(w.Input), Bytes: int(w.Bytes), Author: w.Author}
	case typeTurnEnded:
		e.Body = TurnEnded{Outcome: w.Outcome, Name: w.Name, Message: w.Message, Code: w.Code, Signal: w.Signal, Prompt: w.Prompt, Elapsed: time.Duration(w.ElapsedMS) * time.Millisecond}
	case typeWait:
		e.Body = Wait{Prompt: w.Prompt, Kind: WaitKind(w.Kind), Terminal: w.Terminal, Reader: w.Reader, Permission: w.Permission, Asks: w.denied()}
	case typeWaitEnded:
		e.Body = WaitEnded{Wait: w.Wait.seq}
	case typeInterrupt:
		e.Body = Interrupt{Level: w.Level, Author: w.Author}
	case typeProgress:
		e.Body = Progress{Progress: w.Progress, Total: w.Total, Message: w.Message}
	case typePreparation:
		e.Body = Preparation{What: w.What, Done: int64(w.Progress), Total: int64(w.Total), Message: w.Message}
	case typeDenied:
		e.Body = w.denied()
	case typeGranted:
		e.Body = Granted{Read: w.Read, Write: w.Write, Host: w.Host, Call: w.Call, Always: w.Always, Author: w.Author}
	case typeLimit:
		e.Body = Limit{What: LimitKind(w.What), Used: w.Used, Max: w.Max, All: w.All, Did: w.Did, Program: w.Program}
	case typeCall:
		e.Body = Call{Name: w.Name, Count: w.Count, Failed: w.Failed, Cancelled: w.Cancelled, Sent: w.Sent, Received: w.Received, Elapsed: time.Duration(w.ElapsedMS) * time.Millisecond}
	case typeGenerationStarted:
		e.Body = GenerationStarted{Worker: w.Worker}
	case typeGenerationEnded:
		e.Body = GenerationEnded{Reason: w.Reason, Code: w.Code, Signal: w.Signal, Message: w.Message, Clean: w.Clean, Unready: w.Unready, LastLine: w.LastLine, PeakRSS: w.PeakRSS}
	case typeGap:
		e.Body = Gap{From: w.From, To: w.To, Bytes: w.Bytes}
	case typeElided:
		e.Body = Elided{From: w.From, To: w.To, Bytes: w.Bytes, FirstLine: w.FirstLine, LastLine: w.EndLine}
	default:
		e.Body = Notice{Message: w.Message}
	}
	return e
}

// wireData is bytes, in base64, or the types of a display. A type is its text or, if it is not
// UTF-8, {"base64": …}.
type wireData struct {
	bytes []byte
	types map[string][]byte
}

func (d wireData) IsZero() bool { return len(d.bytes) == 0 && d.types == nil }

type wireBytes struct {
	Base64 []byte `json:"base64"`
}

func (d wireData) MarshalJSON() ([]byte, error) {
	if d.types == nil {
		return json.Marshal(d.bytes)
	}
	types := make(map[string]any, len(d.types))
	for mime, data := range d.types {
		if utf8.Valid(data) {
			types[mime] = string(data)
		} else {
			types[mime] = wireBytes{data}
		}
	}
	return json.Marshal(types)
}

func (d *wireData) UnmarshalJSON(b []byte) error {
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
		var coded wireBytes
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

// wireWait is the id of a wait, or whether a Clear waits.
type wireWait struct {
	seq  Seq
	flag bool
}

func (w wireWait) IsZero() bool { return w == wireWait{} }

func (w wireWait) MarshalJSON() ([]byte, error) {
	if w.flag {
		return json.Marshal(true)
	}
	return json.Marshal(w.seq)
}

func (w *wireWait) UnmarshalJSON(b []byte) error {
	if string(b) == "true" || string(b) == "false" {
		return json.Unmarshal(b, &w.flag)
	}
	return json.Unmarshal(b, &w.seq)
}

func (w *wireEvent) setDenied(d Denied) {
	w.Op, w.Path, w.Host, w.By, w.Remedy, w.Call, w.With, w.Destructive = d.Op, d.Path, d.Host, d.By, d.Remedy, d.Call, d.With, d.Destructive
}

func (w wireEvent) denied() Denied {
	return Denied{Op: w.Op, Path: w.Path, Host: w.Host, By: w.By, Remedy: w.Remedy, Call: w.Call, With: w.With, Destructive: w.Destructive}
}
