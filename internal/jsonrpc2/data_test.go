package jsonrpc2

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

func TestCutData(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte{0, 1, 254}, 10_000)
	text := base64.StdEncoding.EncodeToString(content)
	for name, c := range map[string]struct {
		object string
		ok     bool
	}{
		"the only field":           {`{"data":"` + text + `"}`, true},
		"between others":           {`{"path":"a","data":"` + text + `","last":true}`, true},
		"a small object":           {`{"data":"` + text[:400] + `"}`, false},
		"with a space":             {`{"data": "` + text + `"}`, false},
		"in an inner object":       {`{"a":{"data":"` + text + `"}}`, false},
		"in a text":                {`{"a":"x,\"data\":\"` + text + `"}`, false},
		"not base64":               {`{"data":"` + text + `!"}`, false},
		"with an escape":           {`{"data":"` + text + `\u0041AA="}`, false},
		"without such a field":     {`{"date":"` + text + `"}`, false},
		"a text that ends in data": {`{"a":"` + strings.Repeat("x", 20_000) + `\",","data":1}`, false},
	} {
		rest, data, ok := CutData([]byte(c.object))
		if ok != c.ok {
			t.Errorf("%s: got %v", name, ok)
			continue
		}
		var whole, cut map[string]any
		if err := json.Unmarshal([]byte(c.object), &whole); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !ok {
			continue
		}
		if err := json.Unmarshal(rest, &cut); err != nil || cut["data"] != "" || len(cut) != len(whole) || !bytes.Equal(data, content) {
			t.Errorf("%s: got %v, %d bytes, %v", name, cut, len(data), err)
		}
	}
}
