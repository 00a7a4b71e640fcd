package session_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

const birdSchema = `{"type":"object","required":["name","kind"],"properties":{
	"name":{"type":"string","title":"Name\u001b[31m","minLength":2,"maxLength":5},
	"kind":{"type":"string","enum":["o","w"],"enumNames":["owl","wren"]},
	"eggs":{"type":"integer","minimum":0,"maximum":9,"default":3},
	"weight":{"type":"number"},
	"tame":{"type":"boolean","default":false},
	"mail":{"type":"string","format":"email"},
	"seen":{"type":"string","format":"date"},
	"colours":{"type":"array","maxItems":2,"items":{"anyOf":[{"const":"r","title":"red"},{"const":"b","title":"blue"},{"const":"g"}]}}}}`

func TestForm(t *testing.T) {
	t.Parallel()

	t.Run("fields parse what a user types", func(t *testing.T) {
		t.Parallel()
		fields, err := session.Form{Schema: []byte(birdSchema)}.Fields()
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]session.Field{}
		var order []string
		for _, f := range fields {
			byName[f.Name] = f
			order = append(order, f.Name)
		}
		if got := strings.Join(order, " "); got != "name kind eggs weight tame mail seen colours" {
			t.Errorf("the fields are in the order %s", got)
		}
		if byName["name"].Title != "Name [31m" {
			t.Errorf("a title acts on a terminal: %q", byName["name"].Title)
		}
		for _, one := range []struct {
			name, typed string
			value       any
			wrong       string
		}{
			{"name", "wren", "wren", ""}, {"name", "w", nil, "fewer than 2"}, {"name", "wrenwren", nil, "more than 5"}, {"name", "", nil, "required"},
			{"kind", "owl", "o", ""}, {"kind", "W", "w", ""}, {"kind", "x", nil, "not one of the choices"},
			{"eggs", "", int64(3), ""}, {"eggs", " 7 ", int64(7), ""}, {"eggs", "2.5", nil, "not a whole number"}, {"eggs", "10", nil, "more than 9"}, {"eggs", "-1", nil, "less than 0"}, {"eggs", "many", nil, "not a whole number"},
			{"weight", "1e3", 1000.0, ""}, {"weight", "7", int64(7), ""}, {"weight", "", nil, ""}, {"weight", "x", nil, "not a number"},
			{"tame", "Yes", true, ""}, {"tame", "", false, ""}, {"tame", "maybe", nil, "yes or no"},
			{"mail", "a@b.org", "a@b.org", ""}, {"mail", "a", nil, "not an email address"}, {"seen", "2026-02-30", nil, "not a date"},
			{"colours", "red, g,red", []any{"r", "g"}, ""}, {"colours", "r,b,g", nil, "at most 2"}, {"colours", "", nil, ""},
		} {
			value, err := byName[one.name].Parse(one.typed)
			if one.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), one.wrong) {
					t.Errorf("%s %q: got %v, %v, want an error with %q", one.name, one.typed, value, err, one.wrong)
				}
			} else if err != nil || !reflect.DeepEqual(value, one.value) {
				t.Errorf("%s %q: got %#v, %v, want %#v", one.name, one.typed, value, err, one.value)
			}
		}
	})

	t.Run("an invalid answer is refused with all its faults", func(t *testing.T) {
		t.Parallel()
		f := session.Form{Schema: []byte(birdSchema)}
		a, err := session.ParseFormAnswer([]byte(`{"action":"accept","content":{"kind":"x","eggs":9007199254740993,"more":1}}`))
		if err != nil || a.Content["eggs"] != int64(9007199254740993) {
			t.Fatalf("got %v, %v", a, err)
		}
		err = f.Check(a)
		if want := `Name [31m: it is required; eggs: it is more than 9; kind: "x" is not one of the choices; more: the form has no such field`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		for _, text := range []string{`{"action":"decline"}`, `{"action":"cancel"}`, `{"action":"accept","content":{"kind":"o","name":"ada"}}`} {
			if a, err := session.ParseFormAnswer([]byte(text)); err != nil || f.Check(a) != nil {
				t.Errorf("%s: %v, %v", text, err, f.Check(a))
			}
		}
		for _, text := range []string{"y\n", `{"action":"allow"}`, `{}`, `[]`, ""} {
			if a, err := session.ParseFormAnswer([]byte(text)); err == nil && f.Check(a) == nil {
				t.Errorf("%s is taken", text)
			}
		}
	})

	t.Run("reports a schema that a user cannot be asked for", func(t *testing.T) {
		t.Parallel()
		for schema, want := range map[string]string{
			`[]`: "does not describe an object", `{"type":"array"}`: "does not describe an object", `{"properties":[]}`: "not an object",
			`{"properties":{"a":{"type":"object"}}}`: `"a" has the unsupported type "object"`, `{"properties":{"a":{}}}`: `unsupported type ""`,
			`{"properties":{"a":{"type":"array","items":{"type":"string"}}}}`: "a list without choices", `{"properties":{"a":3}}`: "field a cannot be read",
		} {
			if _, err := (session.Form{Schema: []byte(schema)}).Fields(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", schema, err, want)
			}
		}
	})

	t.Run("a question shows invisible characters of a URL", func(t *testing.T) {
		t.Parallel()
		f := session.Form{Server: "birds", URL: "https://example.org/\u202e\u2800x", Message: "log in"}
		if got, want := f.Question(), `the server birds asks you to open https://example.org/\u202e\u2800x: log in`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
