package ipc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/vmihailenco/msgpack/v5"
)

// schemaFile is the decoded schema.json.
type schemaFile struct {
	About    string
	Protocol struct {
		Name    string
		Version uint64
	}
	Limits struct {
		FrameBytes int `json:"frame_bytes"`
		Fields     int
		Depth      int
	}
	Types    map[string]string
	Messages map[string]messageSchema
}

type messageSchema struct {
	From   string
	Fields map[string]fieldSchema
}

type fieldSchema struct {
	Type       string
	Required   bool
	Enum       []string
	Min        *uint64
	Max        *uint64
	MaxBytes   int `json:"max_bytes"`
	MaxItems   int `json:"max_items"`
	AbsentWhen *struct {
		Field  string
		Equals any
	} `json:"absent_when"`
	Fields map[string]fieldSchema
}

func (m messageSchema) eachField(prefix string, do func(string, fieldSchema)) {
	eachSchema(prefix, m.Fields, do)
}

func eachSchema(prefix string, fields map[string]fieldSchema, do func(string, fieldSchema)) {
	for name, f := range fields {
		do(prefix+name, f)
		eachSchema(prefix+name+".", f.Fields, do)
	}
}

func readSchema(t testing.TB) schemaFile {
	t.Helper()
	data, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schemaFile
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// everyMessage returns one of each message.
func everyMessage() []ipc.Message {
	return []ipc.Message{
		ipc.TurnStart{}, ipc.TurnInput{}, ipc.Interrupt{}, ipc.Query{}, ipc.Shutdown{}, ipc.Functions{}, ipc.CallResult{},
		ipc.WorkerReady{}, ipc.Output{}, ipc.Image{}, ipc.Display{}, ipc.Clear{}, ipc.InputLine{}, ipc.StdinWait{}, ipc.Idle{},
		ipc.InterruptAck{}, ipc.Sigint{}, ipc.Progress{}, ipc.QueryResult{}, ipc.Call{}, ipc.CallCancel{}, ipc.SessionEnd{},
	}
}

func TestSchema(t *testing.T) {
	t.Run("lists the fields of the Go types", func(t *testing.T) {
		schema := readSchema(t)
		var fieldsOf func(reflect.Type) []string
		fieldsOf = func(typ reflect.Type) []string {
			var names []string
			for i := range typ.NumField() {
				f := typ.Field(i)
				name := wireName(f.Name)
				names = append(names, name)
				inner := f.Type
				if inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
					inner = inner.Elem()
				}
				if inner.Kind() == reflect.Struct {
					for _, sub := range fieldsOf(inner) {
						names = append(names, name+"."+sub)
					}
				}
			}
			return names
		}
		var known []string
		for _, m := range everyMessage() {
			known = append(known, m.Type())
			var listed []string
			schema.Messages[m.Type()].eachField("", func(path string, _ fieldSchema) { listed = append(listed, path) })
			got := fieldsOf(reflect.TypeOf(m))
			slices.Sort(got)
			slices.Sort(listed)
			if !slices.Equal(got, listed) {
				t.Errorf("%s: Go has %v, the schema %v", m.Type(), got, listed)
			}
		}
		slices.Sort(known)
		if listed := slices.Sorted(maps.Keys(schema.Messages)); !slices.Equal(known, listed) {
			t.Errorf("Go has %v, the schema %v", known, listed)
		}
	})

	t.Run("has the limits of the constants", func(t *testing.T) {
		s := readSchema(t)
		if s.Protocol.Name != ipc.ProtocolName || s.Protocol.Version != ipc.ProtocolVersion {
			t.Errorf("got protocol %v", s.Protocol)
		}
		if s.Limits.FrameBytes != ipc.MaxFrameBytes || s.Limits.Fields != ipc.MaxFields || s.Limits.Depth != ipc.MaxDepth {
			t.Errorf("got limits %+v", s.Limits)
		}
	})

	// The decoder must accept everything that the schema allows, and refuse everything else.
	t.Run("describes exactly what the decoder enforces", func(t *testing.T) {
		schema := readSchema(t)
		for kind, message := range schema.Messages {
			t.Run(kind, func(t *testing.T) {
				from, other := ipc.FromWorker, ipc.FromSupervisor
				if message.From == "supervisor" {
					from, other = other, from
				}
				decode := func(m map[string]any, from ipc.Side) error {
					// The type goes first, so that it is known when another field is refused.
					var payload bytes.Buffer
					enc := msgpack.NewEncoder(&payload)
					enc.EncodeMapLen(len(m))
					enc.EncodeMulti("type", m["type"])
					for name, v := range m {
						if name != "type" {
							enc.EncodeMulti(name, v)
						}
					}
					_, err := ipc.Decode(payload.Bytes(), from)
					return err
				}
				// with returns a valid message in which the field at path is v.
				with := func(path string, v any) map[string]any {
					m := sampleFields(message.Fields)
					m["type"] = kind
					setField(m, path, v)
					for name, f := range message.Fields {
						if w := f.AbsentWhen; w != nil && m[w.Field] == w.Equals {
							delete(m, name)
						}
					}
					return m
				}
				accept := func(what string, m map[string]any) {
					t.Helper()
					if err := decode(m, from); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
				refuse := func(what, field string, m map[string]any) {
					t.Helper()
					if err := decode(m, from); err == nil || !strings.Contains(err.Error(), field) {
						t.Errorf("%s: got %v, want an error that names %s", what, err, field)
					}
				}
				accept("a good one", with("type", kind))
				if decode(with("type", kind), other) == nil {
					t.Error("accepted in the other direction")
				}
				message.eachField("", func(path string, f fieldSchema) {
					if f.Required {
						refuse("without it", path, with(path, nil))
					} else {
						accept("without it", with(path, nil))
					}
					for typ, v := range map[string]any{
						"uint": uint64(1), "bool": true, "text": "x", "bin": []byte("x"), "texts": []string{"x"},
						"bins": map[string]any{"x": []byte("x")}, "maps": []any{map[string]any{"x": 1}}, "map": map[string]any{"x": 1}, "ext": msgpack.RawMessage{0xd4, 1, 0}, "nil": msgpack.RawMessage{0xc0},
						"number": 1.5,
					} {
						if typ == f.Type || typ == "uint" && (f.Type == "int" || f.Type == "number") {
							continue
						}
						refuse(typ+" for "+f.Type, path, with(path, v))
					}
					for _, v := range f.Enum {
						accept(v, with(path, v))
					}
					if f.Enum != nil {
						refuse("an unknown value", path, with(path, "?"))
						refuse("no value", path, with(path, ""))
					} else if f.Type == "text" && f.MaxBytes == 0 {
						accept("long text", with(path, strings.Repeat("x", 1<<20)))
					}
					if f.Min != nil {
						accept("the least", with(path, *f.Min))
						refuse("less than the least", path, with(path, int64(*f.Min)-1))
					} else if f.Type == "uint" {
						accept("0", with(path, 0))
					}
					if f.Max != nil {
						accept("the most", with(path, *f.Max))
						refuse("more than the most", path, with(path, *f.Max+1))
					} else if f.Type == "uint" {
						accept("2^64-1", with(path, ^uint64(0)))
					}
					if f.MaxBytes > 0 {
						least, over := sampleOfSize(f.Type, f.MaxBytes), sampleOfSize(f.Type, f.MaxBytes+1)
						accept("the longest", with(path, least))
						refuse("longer than the longest", path, with(path, over))
					}
					if f.MaxItems > 0 {
						accept("the most items", with(path, sampleItems(f, f.MaxItems)))
						refuse("more than the most items", path, with(path, sampleItems(f, f.MaxItems+1)))
					}
					if f.AbsentWhen != nil {
						m := with(f.AbsentWhen.Field, f.AbsentWhen.Equals)
						accept("where it is absent", m)
						setField(m, path, sampleValue(f))
						refuse("where it must be absent", path, m)
					}
				})
			})
		}
	})
}

// sampleFields returns a message in which every field is present and valid.
func sampleFields(fields map[string]fieldSchema) map[string]any {
	m := map[string]any{}
	for name, f := range fields {
		m[name] = sampleValue(f)
	}
	for _, f := range fields { // mutually exclusive fields
		if w := f.AbsentWhen; w != nil {
			if w.Equals == true {
				m[w.Field] = false
			} else {
				m[w.Field] = slices.DeleteFunc(slices.Clone(fields[w.Field].Enum), func(v string) bool { return v == w.Equals })[0]
			}
		}
	}
	return m
}

func sampleValue(f fieldSchema) any {
	switch {
	case f.Enum != nil:
		return f.Enum[0]
	case f.Type == "uint", f.Type == "int":
		return 1
	case f.Type == "number":
		return 1.5
	case f.Type == "bool":
		return true
	case f.Type == "map":
		return sampleFields(f.Fields)
	case f.Type == "maps":
		return sampleItems(f, 1)
	}
	return sampleOfSize(f.Type, 1)
}

// sampleItems returns a list of n valid values.
func sampleItems(f fieldSchema, n int) any {
	if f.Type == "texts" {
		return make([]string, n)
	}
	if f.Type == "bins" {
		types := map[string]any{}
		for i := range n {
			types[fmt.Sprint("x/", i)] = []byte{}
		}
		return types
	}
	list := make([]any, n)
	for i := range list {
		list[i] = sampleFields(f.Fields)
	}
	return list
}

func sampleOfSize(typ string, n int) any {
	switch typ {
	case "text":
		return strings.Repeat("x", n)
	case "bin":
		return bytes.Repeat([]byte("x"), n)
	case "texts":
		return []string{strings.Repeat("x", n)}
	case "bins":
		return map[string]any{"x": bytes.Repeat([]byte("x"), n)}
	}
	panic("no size: " + typ)
}

// setField puts v at path, or removes the field if v is nil.
func setField(m map[string]any, path string, v any) {
	name, rest, nested := strings.Cut(path, ".")
	switch {
	case nested:
		inner := m[name]
		if list, ok := inner.([]any); ok {
			inner = list[0]
		}
		setField(inner.(map[string]any), rest, v)
	case v == nil:
		delete(m, name)
	default:
		m[name] = v
	}
}
