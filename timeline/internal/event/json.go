package event

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// eventJSON is the JSON form of an Event. Type says which of the other fields are set.
type eventJSON struct {
	headerJSON
	contentJSON
	inputJSON
	accessJSON
	outcomeJSON
	limitJSON
	callJSON
	progressJSON
	workerJSON
	rangeJSON
}

// headerJSON has the fields of every event, whatever its type is.
type headerJSON struct {
	Seq          Seq       `json:"seq"`
	At           time.Time `json:"at,omitzero"`
	Generation   uint64    `json:"generation,omitempty"`
	Turn         uint64    `json:"turn"`
	BetweenTurns bool      `json:"between_turns,omitempty"`
	Silent       bool      `json:"silent,omitempty"`
	Line         int       `json:"line,omitempty"`
	Type         string    `json:"type"`
}

// contentJSON has the fields of text and displays: what the code wrote.
type contentJSON struct {
	Stream string   `json:"stream,omitempty"` // "stderr"; empty means stdout
	Text   string   `json:"text,omitempty"`   // of text, input_line
	Data   dataJSON `json:"data,omitzero"`    // of a display, and of text that is not UTF-8

	Meta    json.RawMessage `json:"meta,omitempty"`
	ID      string          `json:"id,omitempty"`
	Update  bool            `json:"update,omitempty"`
	Result  bool            `json:"result,omitempty"`
	Title   string          `json:"title,omitempty"`
	Omitted map[string]Blob `json:"omitted,omitempty"`
}

// inputJSON has the fields of inputs, of requests for input, and of the terminal.
type inputJSON struct {
	Input  string `json:"input,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	Author string `json:"author,omitempty"`

	Prompt       string `json:"prompt,omitempty"`
	Kind         string `json:"kind,omitempty"` // of an input request, of text, of a limit
	Secret       bool   `json:"secret,omitempty"`
	Terminal     bool   `json:"terminal,omitempty"`
	Reader       string `json:"reader,omitempty"`
	Raw          bool   `json:"raw,omitempty"`
	Polls        bool   `json:"polls,omitempty"`
	Keys         bool   `json:"keys,omitempty"`
	Wait         bool   `json:"wait,omitempty"`
	InputRequest Seq    `json:"input_request,omitempty"` // the ID of a request that has ended

	On bool `json:"on,omitempty"`
}

// accessJSON has the fields of denied and granted access, and of its request.
type accessJSON struct {
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
}

// outcomeJSON has the fields that say how something ended, and its message.
type outcomeJSON struct {
	Outcome   Outcome `json:"outcome,omitempty"`
	Name      string  `json:"name,omitempty"`
	Message   string  `json:"message,omitempty"`
	ElapsedMS int64   `json:"elapsed_ms,omitempty"`
}

// limitJSON has the fields of a limit that a session came close to.
type limitJSON struct {
	Used        int64     `json:"used,omitempty"`
	Max         int64     `json:"max,omitempty"`
	AllSessions bool      `json:"all_sessions,omitempty"`
	Step        LimitStep `json:"step,omitempty"`
	Program     string    `json:"program,omitempty"`
}

// callJSON has the fields that count the calls of a host function.
type callJSON struct {
	Count     int   `json:"count,omitempty"`
	Failed    int   `json:"failed,omitempty"`
	Cancelled int   `json:"cancelled,omitempty"`
	Sent      int64 `json:"sent,omitempty"`
	Received  int64 `json:"received,omitempty"`
}

// progressJSON has the fields of progress and preparation, and the level of an interrupt.
type progressJSON struct {
	Level    int     `json:"level,omitempty"`
	Progress float64 `json:"progress,omitempty"`
	Total    float64 `json:"total,omitempty"`
}

// workerJSON has the fields of a worker that starts or has ended.
type workerJSON struct {
	Worker       string `json:"worker,omitempty"`
	Reason       string `json:"reason,omitempty"`
	ExitCode     int    `json:"exit_code,omitempty"`
	Signal       string `json:"signal,omitempty"`
	Clean        bool   `json:"clean,omitempty"`
	LastLine     string `json:"last_line,omitempty"`
	NeverReady   bool   `json:"never_ready,omitempty"`
	PeakRSSBytes int64  `json:"peak_rss_bytes,omitempty"`
}

// rangeJSON has the fields of a gap, and of events that were left out.
type rangeJSON struct {
	From      Seq `json:"from,omitempty"`
	To        Seq `json:"to,omitempty"`
	FirstLine int `json:"first_line,omitempty"`
	EndLine   int `json:"end_line,omitempty"`
}

// Type returns the name of the event's type, as in JSON.
func (e Event) Type() string {
	if e.Body == nil {
		return ""
	}
	return e.Body.kind().name
}

// MarshalJSON encodes the event as docs/daemon-protocol.md describes.
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
	w := eventJSON{headerJSON: headerJSON{Seq: e.Seq, At: e.At, Generation: e.Generation, Turn: e.Turn, BetweenTurns: e.BetweenTurns, Silent: e.Silent, Line: e.Line}}
	if e.Body == nil {
		return w
	}
	kind := e.Body.kind()
	w.Type = kind.name
	switch b := e.Body.(type) {
	case Text:
		if b.Stream == Stderr {
			w.Stream = "stderr"
		}
		if utf8.Valid(b.Data) {
			w.Text = string(b.Data)
		} else {
			w.Data.bytes = b.Data
		}
		w.Kind = string(b.Kind)
		return w
	case Display:
		w.Data.types, w.ID, w.Update, w.Result, w.Title, w.Omitted = b.Data, b.ID, b.Update, b.Result, b.Title, b.Omitted
		if json.Valid(b.Meta) {
			w.Meta = b.Meta
		}
		w.Message = b.labelText() // a client that does not know the type shows it as a notice
		return w
	case Limit:
		w.Message = b.String() // likewise
	}
	return w.withFields(kind, e.Body)
}

// withFields returns the event with the fields of a body. It allocates memory, which is not
// necessary for a Text.
func (j eventJSON) withFields(kind *eventKind, body Body) eventJSON {
	kind.visit(body, jsonFields{reflect.ValueOf(&j).Elem(), true})
	return j
}

func (j eventJSON) toEvent() Event {
	e := Event{Seq: j.Seq, At: j.At, Generation: j.Generation, Turn: j.Turn, BetweenTurns: j.BetweenTurns, Silent: j.Silent, Line: j.Line}
	switch j.Type {
	case kindText.name:
		b := Text{Data: j.Data.bytes, Kind: TextKind(j.Kind)}
		if j.Stream == "stderr" {
			b.Stream = Stderr
		}
		if b.Data == nil {
			b.Data = []byte(j.Text)
		}
		e.Body = b
		return e
	case kindDisplay.name:
		e.Body = Display{Data: j.Data.types, Meta: j.Meta, ID: j.ID, Update: j.Update, Result: j.Result, Title: j.Title, Omitted: j.Omitted}
		return e
	}
	for _, k := range eventKinds {
		if k.name == j.Type {
			e.Body = j.readFields(k)
			return e
		}
	}
	e.Body = Notice{Message: j.Message}
	return e
}

func (j eventJSON) readFields(kind *eventKind) Body {
	return kind.visit(nil, jsonFields{reflect.ValueOf(&j).Elem(), false})
}

// jsonFields copies fields between a body and the fields of an eventJSON with the same names. It is
// the fieldVisitor of JSON.
type jsonFields struct {
	event   reflect.Value // of an eventJSON
	writing bool
}

// jsonNames maps the names in JSON to the fields of an eventJSON.
var jsonNames = sync.OnceValue(func() map[string][]int {
	names := make(map[string][]int)
	for _, field := range reflect.VisibleFields(reflect.TypeFor[eventJSON]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names[name] = field.Index
		}
	}
	return names
})

func (f jsonFields) field(name string) reflect.Value {
	index, ok := jsonNames()[name]
	if !ok {
		panic("timeline: eventJSON has no field " + name)
	}
	return f.event.FieldByIndex(index)
}

func (f jsonFields) visitText(name string, v *string) {
	if f.writing {
		f.field(name).SetString(*v)
	} else {
		*v = f.field(name).String()
	}
}

func (f jsonFields) visitBytes(name string, v *[]byte) {
	if f.writing {
		f.field(name).SetString(string(*v))
	} else {
		*v = []byte(f.field(name).String())
	}
}

func (f jsonFields) visitBool(name string, v *bool) {
	if f.writing {
		f.field(name).SetBool(*v)
	} else {
		*v = f.field(name).Bool()
	}
}

func (f jsonFields) visitInt(name string, v *int) {
	n := int64(*v)
	f.visitInt64(name, &n)
	*v = int(n)
}

// visitInt64 also serves numbers that have fractions in other kinds of events.
func (f jsonFields) visitInt64(name string, v *int64) {
	switch field := f.field(name); {
	case field.CanFloat() && f.writing:
		field.SetFloat(float64(*v))
	case field.CanFloat():
		*v = int64(field.Float())
	case f.writing:
		field.SetInt(*v)
	default:
		*v = field.Int()
	}
}

func (f jsonFields) visitUint(name string, v *uint64) {
	if f.writing {
		f.field(name).SetUint(*v)
	} else {
		*v = f.field(name).Uint()
	}
}

func (f jsonFields) visitFloat(name string, v *float64) {
	if f.writing {
		f.field(name).SetFloat(*v)
	} else {
		*v = f.field(name).Float()
	}
}

func (f jsonFields) visitDuration(name string, v *time.Duration) {
	ms := v.Milliseconds()
	f.visitInt64(name, &ms)
	if !f.writing {
		*v = time.Duration(ms) * time.Millisecond
	}
}

// dataJSON holds bytes, in base64, or the types of a display. A type is its text or, if that is
// not valid UTF-8, {"base64": …}.
type dataJSON struct {
	bytes []byte
	types map[string][]byte
}

func (d dataJSON) IsZero() bool { return len(d.bytes) == 0 && d.types == nil }

// base64JSON holds bytes of a display that are not UTF-8.
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
