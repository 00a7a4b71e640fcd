package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// A Form is a question of an MCP server for the user while code calls one of its tools. The form is
// part of an input request of kind timeline.InputKindForm. Answer takes a FormAnswer as JSON. Only
// the user may give it: a program must never fill in a form on its own, or because a model wants
// it.
type Form struct {
	Server  string `json:"server"`  // the server that asks
	Message string `json:"message"` // its question, without control characters but newlines

	// Schema is a JSON Schema of an object whose properties are strings, numbers, booleans, and
	// lists of choices. See Fields.
	Schema json.RawMessage `json:"schema,omitempty"`

	// URL, if set, is the address that the user is asked to open. Then there is no Schema, and
	// to accept means that the user agrees to open it.
	URL string `json:"url,omitempty"`
}

// A FormAction is the user's decision about a form.
type FormAction string

const (
	FormAccept  FormAction = "accept"  // with the content
	FormDecline FormAction = "decline" // the user said no
	FormCancel  FormAction = "cancel"  // the user dismissed it without a decision
)

// A FormAnswer answers a form.
type FormAnswer struct {
	Action  FormAction     `json:"action"`
	Content map[string]any `json:"content,omitempty"` // of FormAccept: bool, int64, float64, string and []any of strings
}

// Input returns the answer as Session.Answer takes it.
func (a FormAnswer) Input() Input {
	data, err := json.Marshal(a)
	if err != nil { // NaN cannot be encoded
		data, _ = json.Marshal(FormAnswer{Action: FormCancel})
	}
	return Input{Data: data}
}

// ParseFormAnswer parses what FormAnswer.Input returns. Whole numbers are int64.
func ParseFormAnswer(data []byte) (a FormAnswer, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&a); err != nil {
		return a, errors.New("a form is answered with a JSON object that has an action")
	}
	for name, v := range a.Content {
		if n, ok := v.(json.Number); ok {
			a.Content[name] = parseNumber(n.String())
		}
	}
	return a, nil
}

// parseNumber parses a JSON number.
func parseNumber(text string) any {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return f
}

// A Field is one value that a form asks for.
type Field struct {
	Name        string
	Title       string // one line; Name if it has none
	Description string // one line; may be empty
	Type        string // string, number, integer, boolean, or array (of choices)
	Required    bool
	Default     any      // nil if there is none
	Choices     []Choice // if not empty, no other values are valid

	format, pattern      string
	minLength, maxLength *int
	minimum, maximum     *float64
	minItems, maxItems   *int
}

// A Choice is one value that a Field may have.
type Choice struct{ Value, Title string }

type fieldSchema struct {
	Type        string        `json:"type"`
	Title       string        `json:"title"`
	Description string        `json:"description"`
	Default     any           `json:"default"`
	Enum        []any         `json:"enum"`
	EnumNames   []string      `json:"enumNames"`
	OneOf       []titledValue `json:"oneOf"`
	AnyOf       []titledValue `json:"anyOf"`
	Items       *fieldSchema  `json:"items"`
	Format      string        `json:"format"`
	Pattern     string        `json:"pattern"`
	MinLength   *int          `json:"minLength"`
	MaxLength   *int          `json:"maxLength"`
	Minimum     *float64      `json:"minimum"`
	Maximum     *float64      `json:"maximum"`
	MinItems    *int          `json:"minItems"`
	MaxItems    *int          `json:"maxItems"`
}

type titledValue struct {
	Const any    `json:"const"`
	Title string `json:"title"`
}

// maxFormFields bounds the fields of a form.
const maxFormFields = 100

// Fields returns the fields of the form, in the order of its schema. The error names a field
// for which the user cannot be asked.
func (f Form) Fields() ([]Field, error) {
	if len(f.Schema) == 0 {
		return nil, nil
	}
	var s struct {
		Type       string          `json:"type"`
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := json.Unmarshal(f.Schema, &s); err != nil || s.Type != "" && s.Type != "object" {
		return nil, errors.New("its schema does not describe an object")
	}
	if len(s.Properties) == 0 || string(s.Properties) == "null" {
		return nil, nil
	}
	var list []Field
	d := json.NewDecoder(bytes.NewReader(s.Properties))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the properties of its schema are not an object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var one fieldSchema
		if err := d.Decode(&one); err != nil {
			return nil, fmt.Errorf("its field %v cannot be read: %w", name, err)
		}
		field, err := one.toField(name.(string), slices.Contains(s.Required, name.(string))) //nolint:forcetypeassert // keys are strings
		if err != nil {
			return nil, err
		}
		if list = append(list, field); len(list) > maxFormFields {
			return nil, fmt.Errorf("it has more than %d fields", maxFormFields)
		}
	}
	return list, nil
}

func (s *fieldSchema) toField(name string, required bool) (Field, error) {
	f := Field{
		Name: name, Title: oneLine(s.Title), Description: oneLine(s.Description), Type: s.Type, Required: required, Default: s.Default,
		format: s.Format, pattern: s.Pattern, minLength: s.MinLength, maxLength: s.MaxLength, minimum: s.Minimum, maximum: s.Maximum,
		minItems: s.MinItems, maxItems: s.MaxItems,
	}
	if f.Title == "" {
		f.Title = oneLine(name)
	}
	of := s
	if s.Type == "array" && s.Items != nil {
		of = s.Items
	}
	f.Choices = of.toChoices()
	switch {
	case !slices.Contains([]string{"string", "number", "integer", "boolean", "array"}, s.Type):
		return f, fmt.Errorf("its field %q has the unsupported type %q", name, s.Type)
	case s.Type == "array" && len(f.Choices) == 0:
		return f, fmt.Errorf("its field %q is a list without choices, which is not supported", name)
	}
	if n, ok := f.Default.(float64); ok && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		f.Default = int64(n)
	}
	if f.Check(f.Default) != nil { // ignore a default that is not valid
		f.Default = nil
	}
	return f, nil
}

func (s *fieldSchema) toChoices() (list []Choice) {
	for i, v := range s.Enum {
		c := Choice{Value: fmt.Sprint(v), Title: fmt.Sprint(v)}
		if i < len(s.EnumNames) {
			c.Title = s.EnumNames[i]
		}
		list = append(list, c)
	}
	for _, one := range slices.Concat(s.OneOf, s.AnyOf) {
		c := Choice{Value: fmt.Sprint(one.Const), Title: one.Title}
		if c.Title == "" {
			c.Title = c.Value
		}
		list = append(list, c)
	}
	for i := range list {
		list[i].Title = oneLine(list[i].Title)
	}
	return list
}

// maxLineChars bounds a one-line text of a server, in characters.
const maxLineChars = 300

// oneLine turns a server's text into one line for the user.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c < ' ' || c >= 0x7f && c < 0xa0 }), " ")
	return text.Shorten(s, maxLineChars)
}

// Hint describes briefly what can be typed: "yes or no", "a, b or c".
func (f Field) Hint() string {
	var values []string
	for _, c := range f.Choices {
		text := c.Value
		if c.Title != c.Value {
			text += " (" + c.Title + ")"
		}
		values = append(values, text)
	}
	switch {
	case f.Type == "array":
		return "any of " + strings.Join(values, ", ") + "; with commas"
	case len(values) > 0:
		return "one of " + strings.Join(values, ", ")
	case f.Type == "boolean":
		return "yes or no"
	case f.Type == "integer":
		return "a whole number"
	case f.Type == "number":
		return "a number"
	case f.format != "":
		return oneLine(f.format)
	}
	return ""
}

// Parse parses what the user typed or chose. Empty text means the default, and nil if there is
// none.
func (f Field) Parse(text string) (value any, err error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case text == "" || trimmed == "" && f.Type != "string":
		value = f.Default
	case f.Type == "boolean":
		value, err = parseBool(trimmed)
	case f.Type == "integer", f.Type == "number":
		value = parseNumber(trimmed)
	case f.Type == "array":
		value, err = f.parseChoices(trimmed)
	case len(f.Choices) > 0:
		value, err = f.parseChoice(trimmed)
	default:
		value = text
	}
	if err == nil {
		err = f.Check(value)
	}
	return value, err
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "y", "yes", "true", "on", "1":
		return true, nil
	case "n", "no", "false", "off", "0":
		return false, nil
	}
	return false, errors.New("answer yes or no")
}

// parseChoice returns the value that a text names, by its value or by its title.
func (f Field) parseChoice(text string) (string, error) {
	for _, c := range f.Choices {
		if strings.EqualFold(text, c.Value) || strings.EqualFold(text, c.Title) {
			return c.Value, nil
		}
	}
	return "", fmt.Errorf("%q is not one of the choices", text)
}

func (f Field) parseChoices(text string) (list []any, err error) {
	for one := range strings.SplitSeq(text, ",") {
		value, err := f.parseChoice(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(list, any(value)) {
			list = append(list, value)
		}
	}
	return list, nil
}

// Check returns an error if a value is not valid; nil means that there is no value.
func (f Field) Check(value any) error {
	switch v := value.(type) {
	case nil:
		if f.Required {
			return errors.New("it is required")
		}
		return nil
	case string:
		if f.Type == "string" {
			return f.checkText(v)
		}
	case bool:
		if f.Type == "boolean" {
			return nil
		}
	case int64:
		if f.Type == "integer" || f.Type == "number" {
			return f.checkNumber(float64(v))
		}
	case float64:
		if f.Type == "number" || f.Type == "integer" && v == math.Trunc(v) {
			return f.checkNumber(v)
		}
	case []any:
		if f.Type == "array" {
			return f.checkList(v)
		}
	}
	return fmt.Errorf("it is not %s", map[string]string{
		"string": "a text", "boolean": "yes or no", "integer": "a whole number", "number": "a number", "array": "a list of choices",
	}[f.Type])
}

func (f Field) checkText(text string) error {
	if len(f.Choices) > 0 {
		if !slices.ContainsFunc(f.Choices, func(c Choice) bool { return c.Value == text }) {
			return fmt.Errorf("%q is not one of the choices", text)
		}
		return nil
	}
	n := utf8.RuneCountInString(text)
	switch {
	case f.minLength != nil && n < *f.minLength:
		return fmt.Errorf("it has fewer than %d characters", *f.minLength)
	case f.maxLength != nil && n > *f.maxLength:
		return fmt.Errorf("it has more than %d characters", *f.maxLength)
	}
	if p, err := regexp.Compile(f.pattern); err == nil && !p.MatchString(text) {
		return fmt.Errorf("it does not match %s", oneLine(f.pattern))
	}
	var err error
	switch f.format {
	case "email":
		_, err = mail.ParseAddress(text)
	case "uri":
		var u *url.URL
		if u, err = url.Parse(text); err == nil && u.Scheme == "" {
			err = errors.New("no scheme")
		}
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "date-time":
		_, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return fmt.Errorf("it is not %s", map[string]string{
			"email": "an email address", "uri": "an address such as https://example.org/", "date": "a date such as 2026-01-31", "date-time": "a time such as 2026-01-31T12:00:00Z",
		}[f.format])
	}
	return nil
}

func (f Field) checkNumber(n float64) error {
	switch {
	case f.minimum != nil && n < *f.minimum:
		return fmt.Errorf("it is less than %v", *f.minimum)
	case f.maximum != nil && n > *f.maximum:
		return fmt.Errorf("it is more than %v", *f.maximum)
	}
	return nil
}

func (f Field) checkList(list []any) error {
	for _, one := range list {
		if text, ok := one.(string); !ok || !slices.ContainsFunc(f.Choices, func(c Choice) bool { return c.Value == text }) {
			return fmt.Errorf("%v is not one of the choices", one)
		}
	}
	switch {
	case f.minItems != nil && len(list) < *f.minItems:
		return fmt.Errorf("it needs at least %d of the choices", *f.minItems)
	case f.maxItems != nil && len(list) > *f.maxItems:
		return fmt.Errorf("it takes at most %d of the choices", *f.maxItems)
	}
	return nil
}

// Check returns an error that names every fault of an answer.
func (f Form) Check(a FormAnswer) error {
	switch a.Action {
	case FormDecline, FormCancel:
		return nil
	case FormAccept:
	default:
		return fmt.Errorf("unknown action %q: use accept, decline or cancel", a.Action)
	}
	fields, err := f.Fields()
	if err != nil {
		return err
	}
	var wrong []string
	for _, one := range fields {
		if err := one.Check(a.Content[one.Name]); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", one.Title, err))
		}
	}
	for name := range a.Content {
		if !slices.ContainsFunc(fields, func(one Field) bool { return one.Name == name }) {
			wrong = append(wrong, fmt.Sprintf("%s: the form has no such field", name))
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// Question returns the question for the user. It names the server, because the server chooses
// the rest.
func (f Form) Question() string {
	if f.URL != "" {
		return fmt.Sprintf("the server %s asks you to open %s: %s", f.Server, text.EscapeInvisible(oneLine(f.URL)), f.Message)
	}
	return fmt.Sprintf("the server %s asks: %s", f.Server, f.Message)
}
