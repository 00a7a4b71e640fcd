package client

import (
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/timeline"
)

// An Event is a timeline.Event on the wire. Type says which of the other fields
// there are.
type Event struct {
	Seq        timeline.Seq `json:"seq"`
	At         time.Time    `json:"at,omitzero"`
	Generation uint64       `json:"generation,omitempty"`
	Turn       uint64       `json:"turn"`
	Between    bool         `json:"between,omitempty"`
	Line       int          `json:"line,omitempty"`
	Type       string       `json:"type"`

	Stream string `json:"stream,omitempty"` // "stderr"; else it is stdout
	Text   string `json:"text,omitempty"`   // of text, input_line
	Data   []byte `json:"data,omitempty"`   // of an image, and of text that is not UTF-8; base64

	MIME   string `json:"mime,omitempty"`
	Source string `json:"source,omitempty"`
	Update bool   `json:"update,omitempty"`
	Title  string `json:"title,omitempty"`

	Input  string `json:"input,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	Author string `json:"author,omitempty"`

	Prompt   string       `json:"prompt,omitempty"`
	Kind     string       `json:"kind,omitempty"`
	Secret   bool         `json:"secret,omitempty"`
	Terminal bool         `json:"terminal,omitempty"`
	Reader   string       `json:"reader,omitempty"`
	Wait     timeline.Seq `json:"wait,omitempty"`

	Outcome   string `json:"outcome,omitempty"`
	Name      string `json:"name,omitempty"`
	Message   string `json:"message,omitempty"`
	ElapsedMS int64  `json:"elapsed_ms,omitempty"`

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

	From      timeline.Seq `json:"from,omitempty"`
	To        timeline.Seq `json:"to,omitempty"`
	FirstLine int          `json:"first_line,omitempty"`
	EndLine   int          `json:"end_line,omitempty"`
}

// The types of events.
const (
	TypeText              = "text"
	TypeImage             = "image"
	TypeInputLine         = "input_line"
	TypeTurnStarted       = "turn_started"
	TypeTurnEnded         = "turn_ended"
	TypeWait              = "wait"
	TypeWaitEnded         = "wait_ended"
	TypeInterrupt         = "interrupt"
	TypeProgress          = "progress"
	TypeNotice            = "notice"
	TypeGenerationStarted = "generation_started"
	TypeGenerationEnded   = "generation_ended"
	TypeGap               = "gap"    // events that are lost
	TypeElided            = "elided" // events that were left out and can be asked for
)

// FromTimeline is e for the wire.
func FromTimeline(e timeline.Event) Event {
	w := Event{Seq: e.Seq, At: e.At, Generation: e.Generation, Turn: e.Turn, Between: e.Between, Line: e.Line}
	switch b := e.Body.(type) {
	case timeline.Text:
		w.Type = TypeText
		if b.Stream == timeline.Stderr {
			w.Stream = "stderr"
		}
		if utf8.Valid(b.Data) {
			w.Text = string(b.Data)
		} else {
			w.Data = b.Data
		}
	case timeline.Image:
		w.Type, w.MIME, w.Data, w.Source, w.Update, w.Title = TypeImage, b.MIME, b.Data, b.Source, b.Update, b.Title
	case timeline.InputLine:
		w.Type, w.Prompt, w.Text, w.Secret, w.Author = TypeInputLine, b.Prompt, b.Text, b.Secret, b.Author
	case timeline.TurnStarted:
		w.Type, w.Input, w.Bytes, w.Author = TypeTurnStarted, string(b.Input), int64(b.Bytes), b.Author
	case timeline.TurnEnded:
		w.Type, w.Outcome, w.Name, w.Message, w.Prompt, w.ElapsedMS = TypeTurnEnded, b.Outcome, b.Name, b.Message, b.Prompt, b.Elapsed.Milliseconds()
	case timeline.Wait:
		w.Type, w.Prompt, w.Kind, w.Terminal, w.Reader = TypeWait, b.Prompt, b.Kind, b.Terminal, b.Reader
	case timeline.WaitEnded:
		w.Type, w.Wait = TypeWaitEnded, b.Wait
	case timeline.Interrupt:
		w.Type, w.Level, w.Author = TypeInterrupt, b.Level, b.Author
	case timeline.Progress:
		w.Type, w.Progress, w.Total, w.Message = TypeProgress, b.Progress, b.Total, b.Message
	case timeline.Notice:
		w.Type, w.Message = TypeNotice, b.Message
	case timeline.GenerationStarted:
		w.Type, w.Worker = TypeGenerationStarted, b.Worker
	case timeline.GenerationEnded:
		w.Type, w.Reason, w.Code, w.Signal, w.Message = TypeGenerationEnded, b.Reason, b.Code, b.Signal, b.Message
		w.Clean, w.Unready, w.LastLine, w.PeakRSS = b.Clean, b.Unready, b.LastLine, b.PeakRSS
	case timeline.Gap:
		w.Type, w.From, w.To, w.Bytes = TypeGap, b.From, b.To, b.Bytes
	case timeline.Elided:
		w.Type, w.From, w.To, w.Bytes, w.FirstLine, w.EndLine = TypeElided, b.From, b.To, b.Bytes, b.FirstLine, b.LastLine
	}
	return w
}

// Timeline is the event as the session recorded it. One of an unknown type becomes a
// notice.
func (w Event) Timeline() timeline.Event {
	e := timeline.Event{Seq: w.Seq, At: w.At, Generation: w.Generation, Turn: w.Turn, Between: w.Between, Line: w.Line}
	switch w.Type {
	case TypeText:
		b := timeline.Text{Data: w.Data}
		if w.Stream == "stderr" {
			b.Stream = timeline.Stderr
		}
		if b.Data == nil {
			b.Data = []byte(w.Text)
		}
		e.Body = b
	case TypeImage:
		e.Body = timeline.Image{MIME: w.MIME, Data: w.Data, Source: w.Source, Update: w.Update, Title: w.Title}
	case TypeInputLine:
		e.Body = timeline.InputLine{Prompt: w.Prompt, Text: w.Text, Secret: w.Secret, Author: w.Author}
	case TypeTurnStarted:
		e.Body = timeline.TurnStarted{Input: []byte(w.Input), Bytes: int(w.Bytes), Author: w.Author}
	case TypeTurnEnded:
		e.Body = timeline.TurnEnded{Outcome: w.Outcome, Name: w.Name, Message: w.Message, Prompt: w.Prompt, Elapsed: time.Duration(w.ElapsedMS) * time.Millisecond}
	case TypeWait:
		e.Body = timeline.Wait{Prompt: w.Prompt, Kind: w.Kind, Terminal: w.Terminal, Reader: w.Reader}
	case TypeWaitEnded:
		e.Body = timeline.WaitEnded{Wait: w.Wait}
	case TypeInterrupt:
		e.Body = timeline.Interrupt{Level: w.Level, Author: w.Author}
	case TypeProgress:
		e.Body = timeline.Progress{Progress: w.Progress, Total: w.Total, Message: w.Message}
	case TypeGenerationStarted:
		e.Body = timeline.GenerationStarted{Worker: w.Worker}
	case TypeGenerationEnded:
		e.Body = timeline.GenerationEnded{Reason: w.Reason, Code: w.Code, Signal: w.Signal, Message: w.Message, Clean: w.Clean, Unready: w.Unready, LastLine: w.LastLine, PeakRSS: w.PeakRSS}
	case TypeGap:
		e.Body = timeline.Gap{From: w.From, To: w.To, Bytes: w.Bytes}
	case TypeElided:
		e.Body = timeline.Elided{From: w.From, To: w.To, Bytes: w.Bytes, FirstLine: w.FirstLine, LastLine: w.EndLine}
	default:
		e.Body = timeline.Notice{Message: w.Message}
	}
	return e
}
