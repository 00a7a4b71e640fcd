package ipc_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
)

// readValueVectors returns the encoded values of testdata/documents.json.
func readValueVectors(t testing.TB) (documents []struct {
	Name, Document string
	Value          any
	Refused        bool
},
) {
	t.Helper()
	data, err := os.ReadFile("testdata/documents.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		About     []string
		Documents json.RawMessage
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(file.Documents))
	dec.UseNumber()
	if err := dec.Decode(&documents); err != nil {
		t.Fatal(err)
	}
	return documents
}

// wantValue parses the notation of the file.
func wantValue(t testing.TB, v any) any {
	t.Helper()
	switch v := v.(type) {
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	case []any:
		for i := range v {
			v[i] = wantValue(t, v[i])
		}
		return v
	case map[string]any:
		for name, inner := range v {
			text, _ := inner.(string)
			switch name {
			case "$bin":
				b, _ := hex.DecodeString(text)
				return b
			case "$float":
				f, _ := strconv.ParseFloat(text, 64)
				return f
			case "$time":
				at, err := time.Parse(time.RFC3339Nano, text)
				if err != nil {
					t.Fatal(err)
				}
				return at
			case "$int":
				if n, err := strconv.ParseInt(text, 10, 64); err == nil {
					return n
				}
				u, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return u
			}
			v[name] = wantValue(t, inner)
		}
	}
	return v
}

func TestValue(t *testing.T) {
	t.Run("matches the bytes and values of the vectors", func(t *testing.T) {
		for _, d := range readValueVectors(t) {
			b, err := hex.DecodeString(d.Document)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ipc.DecodeValue(b)
			if d.Refused {
				if err == nil {
					t.Errorf("%s: decoded as %v, want an error", d.Name, got)
				}
				continue
			}
			want := wantValue(t, d.Value)
			if f, ok := want.(float64); ok && math.IsNaN(f) {
				if g, ok := got.(float64); !ok || !math.IsNaN(g) {
					t.Errorf("%s: got %v, %v", d.Name, got, err)
				}
			} else if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %#v, %v, want %#v", d.Name, got, err, want)
			}
			if again, err := ipc.EncodeValue(want); err != nil || !bytes.Equal(again, b) {
				t.Errorf("%s: encoded as %x, %v, want %x", d.Name, again, err, b)
			}
		}
	})

	t.Run("accepts the same Go values as JSON", func(t *testing.T) {
		type inner struct {
			Plain string `json:"plain"`
		}
		type value struct {
			inner
			Name   string            `json:"name"`
			Left   int               `json:"left,omitempty"`
			Hidden int               `json:"-"`
			Any    map[string]any    `json:"any"`
			Text   *big.Int          `json:"text"`
			Raw    json.RawMessage   `json:"raw"`
			Bytes  [2]byte           `json:"bytes"`
			List   []inner           `json:"list"`
			None   []string          `json:"none"`
			Ptr    *inner            `json:"ptr"`
			Ages   map[string]uint16 `json:"ages"`
			own    int
		}
		v := value{inner: inner{"p"}, Name: "n", Hidden: 1, own: 2, Text: big.NewInt(1 << 60), Raw: json.RawMessage(`{"b":9007199254740993,"a":[1.5,null]}`),
			Bytes: [2]byte{1, 255}, List: []inner{{"q"}}, Ages: map[string]uint16{"x": 1}, Any: map[string]any{"t": time.Unix(1, 0)}}
		b, err := ipc.EncodeValue(&v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ipc.DecodeValue(b)
		want := map[string]any{
			"plain": "p", "name": "n", "any": map[string]any{"t": time.Unix(1, 0).UTC()}, "text": int64(1 << 60),
			"raw": map[string]any{"b": int64(9007199254740993), "a": []any{1.5, nil}}, "bytes": []byte{1, 255},
			"list": []any{map[string]any{"plain": "q"}}, "none": []any{}, "ptr": nil, "ages": map[string]any{"x": int64(1)},
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %#v, %v,\nwant %#v", got, err, want)
		}
	})

	t.Run("names a value that cannot be encoded, and its path", func(t *testing.T) {
		type node struct{ Next *node }
		circle := &node{}
		circle.Next = circle
		var loop []any
		loop = []any{&loop}
		for _, c := range []struct {
			v    any
			want string
		}{
			{map[string]any{"rows": []any{1, map[string]any{"f": func() {}}}}, "rows[1].f: a Go func() cannot"},
			{circle, "nested deeper than 128, or contains itself"},
			{loop, "nested deeper than 128, or contains itself"},
			{map[int]int{1: 1}, "keys that are not strings"},
			{"\xff", "not UTF-8"},
			{json.RawMessage(`123456789012345678901`), "does not fit into 64 bits"},
			{make([]byte, ipc.MaxValueBytes+1), "more than 33554432 bytes"},
			{make([]bool, ipc.MaxValueElements+1), "more than 4194304 values"},
			{[]any{strings.Repeat("x", ipc.MaxValueBytes-2), "y"}, "more than 33554432 bytes"},
		} {
			if _, err := ipc.EncodeValue(c.v); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		}
	})
}

func FuzzDecodeDocument(f *testing.F) {
	for _, d := range readValueVectors(f) {
		b, _ := hex.DecodeString(d.Document)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := ipc.DecodeValue(b)
		if err != nil {
			return
		}
		again, err := ipc.EncodeValue(v)
		if err != nil {
			t.Fatalf("%x was decoded as %#v, which cannot be encoded: %v", b, v, err)
		}
		if _, err := ipc.DecodeValue(again); err != nil {
			t.Fatalf("%x was encoded again as %x: %v", b, again, err)
		}
	})
}
