package ipc_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/vmihailenco/msgpack/v5"
)

// A vector is one entry of testdata/vectors.json, which describes its parts.
type vector struct {
	Name      string
	From      string
	Frame     string
	Message   map[string]any
	Canonical bool
	Refused   string
	Field     string
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		About   []string
		Vectors []vector
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

func (v vector) frameBytes(t testing.TB) []byte {
	t.Helper()
	return parseHex(t, v.Frame)
}

func (v vector) fromSide() ipc.Side {
	if v.From == ipc.FromSupervisor.String() {
		return ipc.FromSupervisor
	}
	return ipc.FromWorker
}

// parseHex parses the notation of the vectors: hex in parts, XX*N for a run.
func parseHex(t testing.TB, text string) []byte {
	t.Helper()
	var out []byte
	for part := range strings.FieldsSeq(text) {
		digits, times, run := strings.Cut(part, "*")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		n := 1
		if run {
			if n, err = strconv.Atoi(times); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, bytes.Repeat(b, n)...)
	}
	return out
}

// receiveOne receives the one frame of stream, as a connection would.
func receiveOne(stream []byte, from ipc.Side) (ipc.Message, error) {
	c := ipc.NewConn(readOnlyChannel{bytes.NewReader(stream)}, from)
	defer c.Close()
	return c.Receive()
}

// readOnlyChannel is a channel whose writing side is not used.
type readOnlyChannel struct{ io.Reader }

func (readOnlyChannel) Write([]byte) (int, error) {
	return 0, errors.New("this side is not for writing")
}
func (readOnlyChannel) Close() error { return nil }

func TestVectors(t *testing.T) {
	t.Run("accepted frames have their meaning", func(t *testing.T) {
		for _, v := range readVectors(t) {
			if v.Refused != "" {
				continue
			}
			t.Run(v.Name, func(t *testing.T) {
				m, err := receiveOne(v.frameBytes(t), v.fromSide())
				if err != nil {
					t.Fatal(err)
				}
				if got, want := messageFields(m), wantMessage(t, v.Message); !reflect.DeepEqual(got, want) {
					t.Errorf("got  %v,\nwant %v", got, want)
				}
			})
		}
	})

	t.Run("canonical frames equal those that are sent", func(t *testing.T) {
		for _, v := range readVectors(t) {
			if !v.Canonical {
				continue
			}
			t.Run(v.Name, func(t *testing.T) {
				frame := v.frameBytes(t)
				m, err := ipc.Decode(frame[4:], v.fromSide())
				if err != nil {
					t.Fatal(err)
				}
				got, err := ipc.AppendFrame(nil, m)
				if err != nil || !bytes.Equal(got, frame) {
					t.Errorf("got  %x, %v,\nwant %x", got, err, frame)
				}
			})
		}
	})

	// The bytes are also decoded by a third-party decoder, so that the file cannot be wrong in
	// the same way as the codec.
	t.Run("canonical frames mean the same to another decoder", func(t *testing.T) {
		for _, v := range readVectors(t) {
			if !v.Canonical {
				continue
			}
			var got map[string]any
			if err := msgpack.Unmarshal(v.frameBytes(t)[4:], &got); err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
			if got, want := normalizeValue(got), wantMessage(t, v.Message); !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\ngot  %v,\nwant %v", v.Name, got, want)
			}
		}
	})

	t.Run("malformed frames are refused for the listed reason", func(t *testing.T) {
		// the texts of this package for the reasons of the file
		words := map[string]string{
			"oversized":       "at most 67108864 are allowed",
			"wrong-type":      ", want ",
			"missing":         "missing",
			"unknown-type":    "unknown message type",
			"wrong-direction": "for the other direction",
			"trailing":        "1 bytes after the message",
			"twice":           "duplicate field",
			"forbidden":       "must be absent here",
			"not-utf8":        "not UTF-8",
			"too-large":       "",
			"too-deep":        "nested deeper than 16",
			"extension":       " is not allowed",
			"truncated":       "ends inside a value",
			"bad-value":       "",
		}
		for _, v := range readVectors(t) {
			if v.Refused == "" {
				continue
			}
			t.Run(v.Name, func(t *testing.T) {
				m, err := receiveOne(v.frameBytes(t), v.fromSide())
				if v.Refused == "truncated" && errors.Is(err, io.ErrUnexpectedEOF) {
					return
				}
				refusal, ok := errors.AsType[*ipc.ProtocolError](err)
				if !ok {
					t.Fatalf("got %v, %v, want a protocol error", m, err)
				}
				word, ok := words[v.Refused]
				if !ok {
					t.Fatalf("reason %q is not listed in the file", v.Refused)
				}
				if !strings.Contains(refusal.Reason, word) || !strings.Contains(refusal.Reason, v.Field) {
					t.Errorf("got reason %q, want one that says %q and %q", refusal.Reason, word, v.Field)
				}
				if len(refusal.Offender) > 210 || strings.ContainsFunc(refusal.Offender, func(r rune) bool { return r < ' ' || r > '~' && r != '…' }) {
					t.Errorf("the offender is not bounded and printable: %q", refusal.Offender)
				}
			})
		}
	})

	t.Run("cover every message and enumeration", func(t *testing.T) {
		seen := map[string]bool{}
		for _, v := range readVectors(t) {
			if !v.Canonical {
				continue
			}
			kind := v.Message["type"].(string)
			seen[kind] = true
			eachField("", v.Message, func(path string, value any) {
				if s, ok := value.(string); ok {
					seen[kind+" "+path+"="+s] = true
				}
				seen[kind+" "+path] = true
			})
		}
		for kind, m := range readSchema(t).Messages {
			if !seen[kind] {
				t.Errorf("no vector for %s", kind)
			}
			m.eachField("", func(path string, f fieldSchema) {
				if !seen[kind+" "+path] {
					t.Errorf("no vector for %s with %s", kind, path)
				}
				for _, v := range f.Enum {
					if !seen[kind+" "+path+"="+v] {
						t.Errorf("no vector for %s with %s %q", kind, path, v)
					}
				}
			})
		}
	})
}

func eachField(prefix string, fields map[string]any, do func(string, any)) {
	for name, value := range fields {
		do(prefix+name, value)
		list, _ := value.([]any)
		for _, sub := range append(list, value) {
			if sub, ok := sub.(map[string]any); ok {
				eachField(prefix+name+".", sub, do)
			}
		}
	}
}

// wantMessage returns the message of a vector in normalized form.
func wantMessage(t testing.TB, v any) any {
	switch v := v.(type) {
	case map[string]any:
		if b, ok := v["bin"]; ok && len(v) == 1 {
			return normalizeValue(parseHex(t, b.(string)))
		}
		out := map[string]any{}
		for name, value := range v {
			out[name] = wantMessage(t, value)
		}
		return out
	case []any:
		out := []any{}
		for _, value := range v {
			out = append(out, wantMessage(t, value))
		}
		return out
	}
	return normalizeValue(v)
}

// normalizeValue converts the values of different decoders to one form.
func normalizeValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			out[name] = normalizeValue(value)
		}
		return out
	case []any:
		out := []any{}
		for _, value := range v {
			out = append(out, normalizeValue(value))
		}
		return out
	case []byte:
		return "binary " + string(v)
	case map[string][]byte:
		out := map[string]any{}
		for name, value := range v {
			out[name] = normalizeValue(value)
		}
		return out
	case string, bool:
		return v
	}
	text := fmt.Sprint(v)
	if f, err := strconv.ParseFloat(text, 64); err == nil && strings.Contains(text, ".") {
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	return "number " + text
}

// messageFields returns m in normalized form, by the names of the fields on the wire.
func messageFields(m ipc.Message) any {
	out := structFields(reflect.ValueOf(m))
	out["type"] = m.Type()
	return out
}

func structFields(v reflect.Value) map[string]any {
	out := map[string]any{}
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		if value.Kind() == reflect.Pointer {
			if value.IsNil() {
				continue
			}
			value = value.Elem()
		}
		if value.IsZero() && isOmitted(v, field.Name) {
			continue
		}
		switch value.Kind() {
		case reflect.Struct:
			out[wireName(field.Name)] = structFields(value)
		case reflect.String:
			out[wireName(field.Name)] = value.String()
		case reflect.Slice:
			if texts, ok := value.Interface().([]string); ok {
				list := []any{}
				for _, s := range texts {
					list = append(list, s)
				}
				out[wireName(field.Name)] = list
				continue
			}
			if value.Type().Elem().Kind() == reflect.Struct {
				list := []any{}
				for i := range value.Len() {
					list = append(list, structFields(value.Index(i)))
				}
				out[wireName(field.Name)] = list
				continue
			}
			out[wireName(field.Name)] = normalizeValue(value.Interface())
		default:
			out[wireName(field.Name)] = normalizeValue(value.Interface())
		}
	}
	return out
}

// isOmitted reports whether a field is omitted when zero.
func isOmitted(v reflect.Value, name string) bool {
	switch name {
	case "Mark", "Source", "Title", "Start", "Matches", "Unrun", "Variables", "Functions", "Tables", "Shape", "Bytes", "Line", "Silent", "NoExit", "Dialect", "Begins", "Display", "Meta", "Continuation":
		return true
	case "ID":
		return v.Type() == reflect.TypeFor[ipc.Display]()
	case "Data":
		return v.Type() == reflect.TypeFor[ipc.QueryResult]()
	case "Kind":
		return v.Type() == reflect.TypeFor[ipc.Output]()
	case "More":
		return v.Type() == reflect.TypeFor[ipc.QueryResult]()
	case "Message":
		return v.Type() != reflect.TypeFor[ipc.RuntimeError]()
	case "Text":
		return v.Type() == reflect.TypeFor[ipc.InputLine]() && v.FieldByName("Secret").Bool()
	}
	return false
}

// wireName returns the name of a Go field on the wire: GraceMS is grace_ms.
func wireName(name string) string {
	var out strings.Builder
	upper := func(i int) bool { return i >= 0 && i < len(name) && name[i] >= 'A' && name[i] <= 'Z' }
	for i := range len(name) {
		if i > 0 && upper(i) && !upper(i-1) {
			out.WriteByte('_')
		}
		out.WriteString(strings.ToLower(name[i : i+1]))
	}
	return out.String()
}
