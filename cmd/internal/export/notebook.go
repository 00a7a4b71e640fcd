package export

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A notebookWriter writes a Jupyter notebook, format 4.5. Each input that succeeded is a code cell
// with its output, and everything else is text.
type notebookWriter struct {
	out     *errWriter
	session SessionFacts
	cells   int
}

// A notebookCell is a cell in the JSON of a notebook.
type notebookCell struct {
	Type     string         `json:"cell_type"`
	ID       string         `json:"id"`
	Metadata map[string]any `json:"metadata"`
	Source   []string       `json:"source"`

	// Only code cells have this field. They have a list of outputs as well.
	Count *int `json:"execution_count,omitempty"`
}

// A notebookOutput is a text or a display in the output of a code cell.
type notebookOutput struct {
	Type string `json:"output_type"`

	Name string   `json:"name,omitempty"`
	Text []string `json:"text,omitempty"`

	Data     map[string]any  `json:"data,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Count    *int            `json:"execution_count,omitempty"` // of a result

	display *timeline.Display // read when it is written
	id      string            // of a display, which an update replaces
	stream  *[]byte           // of text that is still incomplete, as characters may be split
}

func (n *notebookWriter) beginDocument() {
	l := n.session.Language
	metadata := map[string]any{
		"kernelspec":    map[string]string{"name": l.Kernel, "display_name": l.Display, "language": l.JupyterName},
		"language_info": map[string]string{"name": l.JupyterName, "version": n.session.Runtime, "file_extension": "." + l.Extension},
	}
	n.out.print("{\n\"nbformat\": 4,\n\"nbformat_minor\": 5,\n\"metadata\": " + n.encode(metadata) + ",\n\"cells\": [")
}

func (n *notebookWriter) endDocument() { n.out.print("\n]\n}\n") }

func (n *notebookWriter) encode(v any) string {
	b, err := json.Marshal(v)
	n.out.setError(err)
	return string(b)
}

// writeCell writes a cell. The outputs of a code cell are written one by one, because each may be
// large.
func (n *notebookWriter) writeCell(c notebookCell, outputs ...notebookOutput) {
	if n.cells > 0 {
		n.out.print(",")
	}
	n.cells++
	c.ID, c.Metadata = fmt.Sprintf("cell-%d", n.cells), map[string]any{}
	text := n.encode(c)
	if c.Count == nil {
		n.out.print("\n" + text)
		return
	}
	n.out.print("\n" + strings.TrimSuffix(text, "}") + `,"outputs":[`)
	for i, o := range outputs {
		if i > 0 {
			n.out.print(",")
		}
		if o.display != nil {
			d, err := n.session.completeDisplay(*o.display)
			n.out.setError(err)
			o.fillData(d)
		}
		n.out.print(n.encode(o))
	}
	n.out.print("]}")
}

func (n *notebookWriter) writeNote(text string) {
	n.writeCell(notebookCell{Type: "markdown", Source: splitLines(strings.ToUpper(text[:1]) + text[1:] + ".")})
}

func (n *notebookWriter) writeTurn(t *exportedTurn) {
	if t.number == 0 {
		return
	}
	input := strings.TrimRight(t.input, "\r\n")
	if why := t.failureNote(); why != "" {
		marker := "```"
		for strings.Contains(input, marker) {
			marker += "`"
		}
		title := strings.ToUpper(t.turnTitle()[:1]) + t.turnTitle()[1:]
		n.writeCell(notebookCell{Type: "markdown", Source: splitLines(title + " " + why + ":\n\n" + marker + "\n" + input + "\n" + marker)})
		return
	}
	count := int(t.number)
	n.writeCell(notebookCell{Type: "code", Source: splitLines(input), Count: &count}, turnOutputs(t)...)
	if asked := t.answerLines(); len(asked) > 0 {
		n.writeNote("above, " + strings.Join(asked, "; then "))
	}
}

// turnOutputs returns the outputs of a turn. An update of a display replaces the first one.
func turnOutputs(t *exportedTurn) []notebookOutput {
	all := []notebookOutput{}
	for _, e := range t.events {
		switch b := e.Body.(type) {
		case timeline.Text:
			all = addText(all, b)
		case timeline.Display:
			all = addDisplay(all, b)
		}
	}
	count := int(t.number)
	for i := range all {
		o := &all[i]
		switch {
		case o.Type == "execute_result":
			o.Count, o.Metadata = &count, orEmpty(o.Metadata)
			if o.stream != nil {
				o.Data = map[string]any{"text/plain": splitLines(strings.TrimSuffix(o.streamText(), "\n"))}
			}
		case o.stream != nil:
			o.Text = splitLines(o.streamText())
		}
	}
	if left := t.omissionNote(); left != "" {
		all = append(all, notebookOutput{Type: "stream", Name: "stderr", Text: []string{"[" + left + "]\n"}})
	}
	return all
}

func (o *notebookOutput) streamText() string { return strings.ToValidUTF8(string(*o.stream), "\uFFFD") }

// addText adds text to the last output, or as a new output. The echo of a value is a separate
// result.
func addText(all []notebookOutput, t timeline.Text) []notebookOutput {
	if len(t.Data) == 0 {
		return all
	}
	like := notebookOutput{Type: "stream", Name: "stdout"}
	switch {
	case t.Kind == timeline.TextResult:
		like = notebookOutput{Type: "execute_result"}
	case t.Stream == timeline.Stderr:
		like.Name = "stderr"
	}
	if last := len(all) - 1; last < 0 || all[last].stream == nil || all[last].Type != like.Type || all[last].Name != like.Name {
		like.stream = new([]byte)
		all = append(all, like)
	}
	text := all[len(all)-1].stream
	*text = append(*text, t.Data...)
	return all
}

// addDisplay adds a display, replacing the display that it updates; a result replaces its echo.
func addDisplay(all []notebookOutput, d timeline.Display) []notebookOutput {
	o := displayOutput(d)
	if d.Update && d.ID != "" {
		for i := range all {
			if all[i].id == d.ID {
				o.Type = all[i].Type
				all[i] = o
				return all
			}
		}
	}
	last := len(all) - 1
	if !d.Result || last < 0 || all[last].Type != "execute_result" || all[last].stream == nil {
		return append(all, o)
	}
	o.Text = splitLines(strings.TrimSuffix(all[last].streamText(), "\n"))
	all[last] = o
	return all
}

func displayOutput(d timeline.Display) notebookOutput {
	o := notebookOutput{Type: "display_data", Metadata: d.PortableMeta(), id: d.ID, display: &d}
	if d.Result {
		o.Type = "execute_result"
	}
	return o
}

// fillData fills an output with its bundle in the form of notebooks: texts as lists of lines, JSON
// verbatim, the rest in base64. The text so far is used if the bundle has none.
func (o *notebookOutput) fillData(d timeline.Display) {
	o.Data = make(map[string]any, len(d.Data)+1)
	for mime, data := range d.Data {
		switch _, kind, _ := strings.Cut(mime, "/"); {
		case mime == timeline.MIMETable || mime == timeline.MIMEWidget: // they mean nothing outside the session
		case (kind == "json" || strings.HasSuffix(kind, "+json")) && json.Valid(data):
			o.Data[mime] = json.RawMessage(data)
		case utf8.Valid(data) && !isBitmap(mime):
			o.Data[mime] = splitLines(string(data))
		default:
			o.Data[mime] = base64.StdEncoding.EncodeToString(data)
		}
	}
	if _, ok := o.Data["text/plain"]; !ok && o.Text != nil {
		o.Data["text/plain"] = o.Text
	} else if !ok && !d.Result {
		o.Data["text/plain"] = splitLines(displayName(d))
	}
	o.Text = nil
}

// displayName returns the text that stands for a display without text.
func displayName(d timeline.Display) string {
	title := d.Title
	if _, _, ok := d.ImageData(); title == "" && ok {
		title = "an image"
	}
	if title == "" {
		title = "a display"
	}
	if len(d.Omitted) > 0 {
		title += ", only partly stored"
	}
	return title
}

func isBitmap(mime string) bool {
	return strings.HasPrefix(mime, "image/") && !strings.HasSuffix(mime, "+xml")
}

// orEmpty returns the metadata of a display, or an empty object without any, because every display
// in a notebook must have metadata.
func orEmpty(meta json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(meta, &object) != nil || object == nil {
		return json.RawMessage("{}")
	}
	return meta
}

// splitLines splits text into lines, each with its newline, as notebooks store it.
func splitLines(text string) []string {
	all := []string{}
	for line := range strings.Lines(text) {
		all = append(all, line)
	}
	return all
}
