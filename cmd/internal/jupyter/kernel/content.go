package kernel

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/timeline"
)

// mimeBundle returns the data of a display in the form of messages: JSON unchanged, text as text, and
// all else in base64. Omitted types are named in text/plain.
func mimeBundle(d timeline.Display) map[string]any {
	data := make(map[string]any, len(d.Data)+1)
	for mime, bytes := range d.Data {
		switch {
		case mime == timeline.MIMETable: // only readers that can ask for more rows have a use for it
		case wire.IsJSON(mime) && json.Valid(bytes):
			data[mime] = json.RawMessage(bytes)
		case strings.HasPrefix(mime, "text/") || utf8.Valid(bytes) && !wire.IsBinary(mime):
			data[mime] = strings.ToValidUTF8(string(bytes), "\uFFFD")
		default:
			data[mime] = base64.StdEncoding.EncodeToString(bytes)
		}
	}
	if _, ok := data["text/plain"]; !ok && len(d.Omitted) > 0 {
		var left []string
		for _, mime := range slices.Sorted(maps.Keys(d.Omitted)) {
			if mime == timeline.MIMETable {
				continue
			}
			left = append(left, fmt.Sprintf("%s of %d bytes", mime, d.Omitted[mime].Bytes))
		}
		data["text/plain"] = "[omitted: " + strings.Join(left, ", ") + "]"
	}
	return data
}

func displayTransient(d timeline.Display) map[string]string {
	if d.ID == "" {
		return map[string]string{}
	}
	return map[string]string{"display_id": d.ID}
}

// maxTracebackBytes bounds a traceback, in bytes.
const maxTracebackBytes = 256 << 10

// An errorContent is the content of an error message.
type errorContent struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// newErrorContent describes how a turn failed, or returns nil if it did not.
func newErrorContent(b timeline.TurnEnded, trace []byte, died *timeline.WorkerExited) *errorContent {
	f := &errorContent{Name: b.Name, Value: b.Message}
	switch {
	case b.Outcome == timeline.OutcomeOK:
		return nil
	case b.Outcome == timeline.OutcomeEnded:
		f.Name = "WorkerEnded"
		if died != nil {
			f.Value = exitMessage(died)
		}
	case f.Name == "" && b.Outcome == timeline.OutcomeInterrupted:
		f.Name = "KeyboardInterrupt"
	case f.Name == "":
		f.Name = "Error"
	}
	text := strings.TrimRight(strings.ToValidUTF8(string(trace), "\uFFFD"), "\n")
	if text == "" {
		text = strings.TrimSuffix(f.Name+": "+f.Value, ": ")
	}
	f.Traceback = strings.Split(text, "\n")
	return f
}

// exitMessage returns a sentence about the end of a worker.
func exitMessage(died *timeline.WorkerExited) string {
	text := "the worker ended: " + died.Reason
	if died.Message != "" {
		text += ": " + died.Message
	}
	return text + "; the next cell starts a new one, without the variables"
}

func streamContent(name, text string) map[string]string {
	return map[string]string{"name": name, "text": strings.ToValidUTF8(text, "\uFFFD")}
}

type statusContent struct {
	State string `json:"execution_state"`
}
