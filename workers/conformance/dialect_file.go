package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// dialectFile is the JSON form of a Dialect: fields that are functions are code in which {text}
// stands for a literal.
type dialectFile struct {
	Quote string `json:"quote"`

	Print string `json:"print"`
	Ask   string `json:"ask"`
	Shell string `json:"shell"`
	Call  string `json:"call"`
	Group string `json:"group"`

	Error string `json:"error"`
	Sleep string `json:"sleep"`
	Loop  string `json:"loop"`
	Exit  string `json:"exit"`

	Whole   string `json:"whole"`
	Partial string `json:"partial"`
	Broken  string `json:"broken"`

	Word  string `json:"word"`
	Match string `json:"match"`

	Define   string `json:"define"`
	Variable string `json:"variable"`
}

// literalQuotes maps the names of quoting styles in a dialect file to functions that quote a
// text.
var literalQuotes = map[string]func(string) string{
	"json": func(s string) string {
		var b bytes.Buffer
		out := json.NewEncoder(&b)
		out.SetEscapeHTML(false)
		_ = out.Encode(s) // encoding a string into a buffer cannot fail
		return strings.TrimSuffix(b.String(), "\n")
	},
	"sql":   func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" },
	"shell": func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
}

// textMark stands for a literal in a snippet of a dialect file.
const textMark = "{text}"

// ParseDialect returns the dialect that a JSON object describes. Its keys are the names of the
// fields of [Dialect] in lower case, all of them optional. The values are code. In print, ask,
// shell, call and group, {text} stands for a text, which is quoted according to "quote": "json"
// for a JSON string (the default), "sql" for single quotes that are doubled within the text,
// "shell" for single quotes of a shell.
func ParseDialect(text []byte) (Dialect, error) {
	file := dialectFile{Quote: "json"}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&file); err != nil {
		return Dialect{}, fmt.Errorf("conformance: invalid dialect: %w", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return Dialect{}, errors.New("conformance: unexpected text after the dialect")
	}
	quote := literalQuotes[file.Quote]
	if quote == nil {
		return Dialect{}, fmt.Errorf(`conformance: quote is %q: use "json", "sql" or "shell"`, file.Quote)
	}
	d := Dialect{
		Error: file.Error, Sleep: file.Sleep, Loop: file.Loop, Exit: file.Exit,
		Whole: file.Whole, Partial: file.Partial, Broken: file.Broken,
		Word: file.Word, Match: file.Match, Define: file.Define, Variable: file.Variable,
	}
	for _, f := range []struct {
		key, code string
		to        *func(string) string
	}{
		{"print", file.Print, &d.Print}, {"ask", file.Ask, &d.Ask}, {"shell", file.Shell, &d.Shell}, {"call", file.Call, &d.Call}, {"group", file.Group, &d.Group},
	} {
		if f.code == "" {
			continue
		}
		if !strings.Contains(f.code, textMark) {
			return Dialect{}, fmt.Errorf("conformance: %s must contain %s, which stands for the text", f.key, textMark)
		}
		*f.to = func(text string) string { return strings.ReplaceAll(f.code, textMark, quote(text)) }
	}
	return d, d.checkComplete()
}

// checkComplete refuses a dialect that has only a part of the snippets that one check needs.
func (d *Dialect) checkComplete() error {
	for _, group := range []map[string]string{
		{"whole": d.Whole, "partial": d.Partial, "broken": d.Broken},
		{"word": d.Word, "match": d.Match},
		{"define": d.Define, "variable": d.Variable},
	} {
		var has, lacks []string
		for key, code := range group {
			if code == "" {
				lacks = append(lacks, key)
			} else {
				has = append(has, key)
			}
		}
		if len(has) > 0 && len(lacks) > 0 {
			slices.Sort(has)
			slices.Sort(lacks)
			return fmt.Errorf("conformance: the dialect has %s, which needs %s", strings.Join(has, " and "), strings.Join(lacks, " and "))
		}
	}
	return nil
}
