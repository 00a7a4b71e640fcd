package protocol

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
)

// newObject returns an object of names and values.
func newObject(fields ...any) ipc.Object {
	o := ipc.Object{}
	for i := 0; i < len(fields); i += 2 {
		o = append(o, ipc.Field{Name: fields[i].(string), Value: fields[i+1]})
	}
	return o
}

func TestEncodedToJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 0, 5, time.UTC)
	for name, test := range map[string]struct {
		value any
		want  string
	}{
		"plain values":              {newObject("z", nil, "a", []any{true, int64(-1), "é\n\"\x01"}), `{"z":null,"a":[true,-1,"é\n\"\u0001"]}`},
		"a float stays a float":     {[]any{2.0, 1e300, -0.5, math.Copysign(0, -1)}, `[2.0,1e+300,-0.5,-0.0]`},
		"floats that JSON lacks":    {[]any{math.NaN(), math.Inf(1), math.Inf(-1)}, `[{"$float":"NaN"},{"$float":"Infinity"},{"$float":"-Infinity"}]`},
		"integers of 64 bits":       {[]any{int64(math.MinInt64), uint64(math.MaxUint64), int64(1<<53 - 1), int64(1 << 53)}, `[{"$int":"-9223372036854775808"},{"$int":"18446744073709551615"},9007199254740991,{"$int":"9007199254740992"}]`},
		"bytes":                     {[]byte{0, 255}, `{"$bytes":"AP8="}`},
		"a time":                    {at, `{"$time":"2026-01-31T12:00:00.000000005Z"}`},
		"an object like a tag":      {newObject("$bytes", "x"), `{"$object":{"$bytes":"x"}}`},
		"an object in such objects": {newObject("$object", newObject("$object", int64(1))), `{"$object":{"$object":{"$object":{"$object":1}}}}`},
		"two fields are no tag":     {newObject("$int", "1", "b", int64(1)), `{"$int":"1","b":1}`},
		"empty ones":                {[]any{"", []byte{}, []any{}, ipc.Object{}}, `["",{"$bytes":""},[],{}]`},
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := ipc.EncodeValue(test.value)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ipc.EncodedToJSON(encoded)
			if err != nil || string(got) != test.want {
				t.Fatalf("got %s, %v; want %s", got, err, test.want)
			}
			back, err := parseValue(got, false)
			if err != nil {
				t.Fatal(err)
			}
			again, err := ipc.EncodeValue(back)
			if err != nil || !bytes.Equal(again, encoded) {
				t.Errorf("%s is read as %#v, %v", got, back, err)
			}
			if _, err := parseValue(got, true); err != nil {
				t.Errorf("as maps: %v", err)
			}
		})
	}
	if _, err := ipc.EncodedToJSON([]byte{0x91}); err == nil {
		t.Error("a truncated value is accepted")
	}
	far, _ := ipc.EncodeValue(time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC))
	if _, err := ipc.EncodedToJSON(far); err == nil || !strings.Contains(err.Error(), "between 0 and 9999") {
		t.Errorf("a year that JSON cannot express: %v", err)
	}
}

func TestDecodeValue_Refusals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"a tag that does not exist":  {`{"$what":"1"}`, "unknown tag"},
		"a tag with a wrong type":    {`{"a":[{"$bytes":1}]}`, "a[0]: the value of $bytes has the wrong type"},
		"bytes that are not base64":  {`{"$bytes":"!"}`, "not base64"},
		"a time without a zone":      {`{"$time":"2026-01-31T12:00:00"}`, "not a time"},
		"an integer beyond 64 bits":  {`18446744073709551616`, "64 bits"},
		"a float beyond 64 bits":     {`1e999`, "out of range"},
		"an integer that is no text": {`{"$int":"x"}`, "64 bits"},
		"two values":                 {`1 2`, "after top-level"},
		"truncated":                  {`{"a":[1`, "unexpected end"},
		"nothing":                    {``, "unexpected end"},
		"half a surrogate pair":      {`"\ud800"`, "surrogate"},
		"a wrapped text":             {`{"$object":"x"}`, "not an object"},
		"too deep":                   {strings.Repeat("[", 300) + strings.Repeat("]", 300), "nested deeper"},
		"too many values":            {"[" + strings.Repeat("1,", ipc.MaxValueElements) + "1]", "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			if v, err := parseValue([]byte(test.text), false); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v; want an error about %q", v, err, test.want)
			}
		})
	}
}

func FuzzDecodeValue(f *testing.F) {
	for _, seed := range []string{`{"$object":{"$int":"1"}}`, `[{"$float":"NaN"},{"$time":"2026-01-31T12:00:00Z"}]`, `{"a":{"$bytes":"AA=="}}`, `-0.0`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := parseValue(text, false)
		if err != nil {
			return
		}
		encoded, err := ipc.EncodeValue(v)
		if err != nil {
			return // too deep, for example
		}
		out, err := ipc.EncodedToJSON(encoded)
		if err != nil {
			return // a year beyond 9999 after the conversion to UTC
		}
		back, err := parseValue(out, false)
		if err != nil {
			t.Fatalf("%s cannot be read: %v", out, err)
		}
		if again, _ := ipc.EncodeValue(back); !bytes.Equal(again, encoded) {
			t.Fatalf("%s became %s", text, out)
		}
	})
}
