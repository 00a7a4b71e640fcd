package kernelworker

import (
	"encoding/json"
	"strings"
)

// Contents of messages, with the fields that the worker uses; see "Messaging in Jupyter".
type (
	infoReply struct {
		Implementation string `json:"implementation"`
		Language       struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"language_info"`
	}

	executeReply struct {
		Status    string   `json:"status"`
		Name      string   `json:"ename"`
		Value     string   `json:"evalue"`
		Traceback []string `json:"traceback"`
		Payload   []struct {
			Source string            `json:"source"`
			Data   map[string]string `json:"data"` // page
			Text   string            `json:"text"` // set_next_input
			Keep   bool              `json:"keepkernel"`
		} `json:"payload"`
	}

	statusContent struct {
		State string `json:"execution_state"`
	}

	streamContent struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}

	displayContent struct {
		Data      map[string]json.RawMessage `json:"data"`
		Metadata  json.RawMessage            `json:"metadata"`
		Transient struct {
			ID string `json:"display_id"`
		} `json:"transient"`
	}

	errorContent struct {
		Name      string   `json:"ename"`
		Value     string   `json:"evalue"`
		Traceback []string `json:"traceback"`
	}

	clearContent struct {
		Wait bool `json:"wait"`
	}

	inputRequestContent struct {
		Prompt   string `json:"prompt"`
		Password bool   `json:"password"`
	}

	completeReply struct {
		Status  string   `json:"status"`
		Matches []string `json:"matches"`
		Start   int      `json:"cursor_start"` // characters
		End     int      `json:"cursor_end"`
	}

	isCompleteReply struct {
		Status string `json:"status"`
	}
)

type executeRequest struct {
	Code        string            `json:"code"`
	Silent      bool              `json:"silent"`
	Store       bool              `json:"store_history"`
	Expressions map[string]string `json:"user_expressions"`
	Stdin       bool              `json:"allow_stdin"`
	// StopOnError is false: nothing is ever queued after a request, and some kernels abort a request
	// that arrives right after an error.
	StopOnError bool `json:"stop_on_error"`
}

// valueText returns a MIME type's value as text: a string, a list of lines, or JSON.
func valueText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var lines []string
	if json.Unmarshal(value, &lines) == nil {
		return strings.Join(lines, "")
	}
	return string(value)
}

// tracebackText returns the text of an error for the user: its traceback. An error without a name is
// the exit status of a command, which has printed its own message.
func (e *errorContent) tracebackText() string {
	text := strings.Join(e.Traceback, "\n")
	if text == "" && e.Name != "" {
		text = strings.TrimSuffix(e.Name+": "+e.Value, ": ")
	}
	return withNewline(text)
}

// withNewline returns text that ends with a newline; "" stays.
func withNewline(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
