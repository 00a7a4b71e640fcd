package browserprompt

import (
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
)

// fieldKey is the name of a form field in the posted values.
func fieldKey(name string) string { return "field-" + name }

// writeForm writes the fields of a form with the typed values, or else their defaults, and the
// buttons.
func writeForm(b *strings.Builder, f session.Form, typed url.Values, wrong map[string]string) {
	yes := "Answer"
	if f.URL != "" {
		yes = "I agree"
		if to := html.EscapeString(f.URL); strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "http://") {
			fmt.Fprintf(b, `<p><a href="%s" target="_blank" rel="noreferrer noopener">%s</a></p>`, to, to)
		}
	}
	fields, _ := f.Fields() // only forms with fields are shown
	for _, one := range fields {
		given := typed[fieldKey(one.Name)]
		if typed == nil {
			given = defaultTexts(one.Default)
		}
		fmt.Fprintf(b, "<p><label>%s", html.EscapeString(one.Title))
		if one.Required {
			b.WriteString(" *")
		}
		if one.Description != "" {
			fmt.Fprintf(b, "<br><small>%s</small>", html.EscapeString(one.Description))
		}
		writeField(b, one, given)
		if wrong[one.Name] != "" {
			fmt.Fprintf(b, "<br><strong>%s</strong>", html.EscapeString(wrong[one.Name]))
		}
		b.WriteString("</p>\n")
	}
	fmt.Fprintf(b, `<p><button name="action" value="accept">%s</button> <button name="action" value="decline">No</button></p>`, yes)
}

// writeField writes the input elements of a field, and the end of its label.
func writeField(b *strings.Builder, f session.Field, given []string) {
	key := html.EscapeString(fieldKey(f.Name))
	option := func(format string, c session.Choice, chosen string) {
		if !slices.Contains(given, c.Value) {
			chosen = ""
		}
		fmt.Fprintf(b, format, html.EscapeString(c.Value), chosen, html.EscapeString(c.Title))
	}
	choices := f.Choices
	switch {
	case f.Type == "array":
		b.WriteString("</label>")
		for _, c := range choices {
			option(`<br><label><input type="checkbox" name="`+strings.ReplaceAll(key, "%", "%%")+`" value="%s"%s> %s</label>`, c, " checked")
		}
		return
	case f.Type == "boolean":
		choices = []session.Choice{{Value: "yes", Title: "yes"}, {Value: "no", Title: "no"}}
	case len(choices) == 0:
		fmt.Fprintf(b, `<input name="%s" value="%s" autocomplete="off" type="text"></label>`, key, html.EscapeString(strings.Join(given, "")))
		return
	}
	fmt.Fprintf(b, `<select name="%s"><option></option>`, key)
	for _, c := range choices {
		option(`<option value="%s"%s>%s</option>`, c, " selected")
	}
	b.WriteString("</select></label>")
}

// defaultTexts returns a default in the form in which it would be typed.
func defaultTexts(v any) (list []string) {
	switch v := v.(type) {
	case nil:
	case bool:
		return []string{map[bool]string{true: "yes", false: "no"}[v]}
	case []any:
		for _, one := range v {
			list = append(list, fmt.Sprint(one))
		}
	default:
		return []string{fmt.Sprint(v)}
	}
	return list
}

// parseAnswer parses the posted values, and returns the answer, or the errors of its fields.
func parseAnswer(f session.Form, posted url.Values) (answer string, wrong map[string]string) {
	a := session.FormAnswer{Action: session.FormDecline}
	if posted.Get("action") == string(session.FormAccept) {
		a = session.FormAnswer{Action: session.FormAccept, Content: map[string]any{}}
		wrong = map[string]string{}
		fields, _ := f.Fields() // only forms with fields are shown
		for _, one := range fields {
			value, err := parseField(one, posted[fieldKey(one.Name)])
			if err != nil {
				wrong[one.Name] = err.Error()
			} else if value != nil {
				a.Content[one.Name] = value
			}
		}
	}
	return string(a.Input().Data), wrong
}

// parseField parses one field. The defaults were shown, so an empty value means no value.
func parseField(f session.Field, given []string) (any, error) {
	if f.Type == "array" && len(given) > 0 {
		list := make([]any, len(given))
		for i, one := range given {
			list[i] = one
		}
		return list, f.Check(list)
	}
	f.Default = nil
	return f.Parse(strings.Join(given, ""))
}
