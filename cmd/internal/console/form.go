package console

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
)

// answerForm asks the user for the fields of a form, one by one. The end of input dismisses the
// form.
func (c *conversation) answerForm(ctx context.Context, w session.InputRequest) error {
	c.printQuestion(w.Form.Question())
	fields, err := w.Form.Fields()
	answer := session.FormAnswer{Action: session.FormCancel}
	if err == nil {
		var answered bool
		if answer, answered, err = c.readFormFields(ctx, w, fields); err != nil || !answered {
			return err
		}
	}
	if _, err = c.session.Answer(ctx, w.ID, answer.Input()); errors.Is(err, session.ErrStale) {
		return nil // the request ended at the same moment
	}
	return err
}

// readFormFields reads the answer to a form. answered is false if the request ended before.
func (c *conversation) readFormFields(ctx context.Context, w session.InputRequest, fields []session.Field) (answer session.FormAnswer, answered bool, err error) {
	err = c.readAnswer(ctx, w, FormChoices(*w.Form), func(line string, end bool) (bool, error) {
		answer.Action, answered = formAction(line, end)
		return answered, nil
	})
	if err != nil || !answered || answer.Action != session.FormAccept {
		return answer, answered, err
	}
	answer.Content = map[string]any{}
	for _, f := range fields {
		answered = false
		err = c.readAnswer(ctx, w, FieldPrompt(f), func(line string, end bool) (bool, error) {
			if end {
				answer, answered = session.FormAnswer{Action: session.FormCancel}, true
				return true, nil
			}
			value, err := f.Parse(line)
			if err != nil {
				c.printer.printNotice(f.Title + ": " + err.Error())
				return false, nil
			}
			if answered = true; value != nil {
				answer.Content[f.Name] = value
			}
			return true, nil
		})
		if err != nil || !answered || answer.Action != session.FormAccept {
			break
		}
	}
	return answer, answered, err
}

// FormChoices returns the prompt that asks whether to answer a form.
func FormChoices(f session.Form) string {
	if f.URL != "" {
		return "y (you agree to open it) or n: "
	}
	return "y (answer it) or n: "
}

// formAction parses the answer to FormChoices. ok is false if the line is not a valid choice.
func formAction(line string, end bool) (a session.FormAction, ok bool) {
	if end {
		return session.FormCancel, true
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return session.FormAccept, true
	case "n", "no":
		return session.FormDecline, true
	}
	return "", false
}

// FieldPrompt returns the prompt for a field, such as "Colour (one of red, blue; default red): ".
func FieldPrompt(f session.Field) string {
	var about []string
	for _, one := range []string{f.Description, f.Hint()} {
		if one != "" {
			about = append(about, one)
		}
	}
	switch {
	case f.Default != nil:
		about = append(about, fmt.Sprintf("default %v", f.Default))
	case !f.Required:
		about = append(about, "may be empty")
	}
	if len(about) == 0 {
		return f.Title + ": "
	}
	return f.Title + " (" + strings.Join(about, "; ") + "): "
}
