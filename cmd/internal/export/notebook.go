package export

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A notebook is a Jupyter notebook, format 4.5: a cell of code with its output for each input
// that succeeded, and text for everything else.
type notebook struct {
	out     *errWriter
	session Session
	cells   int
}

// A cell is a cell of a notebook.
type cell struct {
	Type     string         `json:"cell_type"`
	ID       string         `json:"id"`
	Metadata map[string]any `json:"metadata"`
	Source   []string       `json:"source"`

	// Only in cells of code.
	Count   *int      `json:"execution_count,omitempty"`
	Outputs *[]output `json:"outputs,omitempty"`
}

// An output is text or a picture.
type output struct {
	Type string `json:"output_type"`

	Name string   `json:"name,omitempty"`
	Text []string `json:"text,omitempty"`

	Data     map[string]string `json:"data,omitempty"`
	Metadata *struct{}         `json:"metadata,omitempty"`

	source string  // of a picture, which an update replaces
	stream *[]byte // of text, until it is complete: characters may be split
}

func (n *notebook) begin() {
	l := n.session.Language
	metadata := map[string]any{
		"kernelspec":    map[string]string{"name": l.Kernel, "display_name": l.Display, "language": l.JupyterName},
		"language_info": map[string]string{"name": l.JupyterName, "version": n.session.Runtime, "file_extension": "." + l.Extension},
	}
	n.out.print("{\n\"nbformat\": 4,\n\"nbformat_minor\": 5,\n\"metadata\": " + n.encode(metadata) + ",\n\"cells\": [")
}

func (n *notebook) end() { n.out.print("\n]\n}\n") }

func (n *notebook) encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil && n.out.err == nil {
		n.out.err = err
	}
	return string(b)
}

func (n *notebook) add(c cell) {
	if n.cells > 0 {
		n.out.print(",")
	}
	n.cells++
	c.ID, c.Metadata = fmt.Sprintf("cell-%d", n.cells), map[string]any{}
	n.out.print("\n" + n.encode(c))
}

func (n *notebook) note(text string) {
	n.add(cell{Type: "markdown", Source: lines(strings.ToUpper(text[:1]) + text[1:] + ".")})
}

func (n *notebook) turn(t *turn) {
	if t.number == 0 {
		return
	}
	input := strings.TrimRight(t.input, "\r\n")
	if why := t.failure(); why != "" {
		fence := "```"
		for strings.Contains(input, fence) {
			fence += "`"
		}
		title := strings.ToUpper(t.title()[:1]) + t.title()[1:]
		n.add(cell{Type: "markdown", Source: lines(title + " " + why + ":\n\n" + fence + "\n" + input + "\n" + fence)})
		return
	}
	count, shown := int(t.number), outputs(t)
	n.add(cell{Type: "code", Source: lines(input), Count: &count, Outputs: &shown})
	if asked := t.asked(); len(asked) > 0 {
		n.note("above, " + strings.Join(asked, "; then "))
	}
}

// outputs returns the output of a turn. An update of a picture replaces the first one.
func outputs(t *turn) []output {
	all := []output{}
	for _, e := range t.events {
		switch b := e.Body.(type) {
		case timeline.Text:
			if len(b.Data) == 0 {
				continue
			}
			name := "stdout"
			if b.Stream == timeline.Stderr {
				name = "stderr"
			}
			if last := len(all) - 1; last < 0 || all[last].Name != name {
				all = append(all, output{Type: "stream", Name: name, stream: new([]byte)})
			}
			text := all[len(all)-1].stream
			*text = append(*text, b.Data...)
		case timeline.Image:
			o := picture(b)
			at := len(all)
			for i := range all {
				if b.Update && all[i].source != "" && all[i].source == o.source {
					at = i
				}
			}
			if at < len(all) {
				all[at] = o
			} else {
				all = append(all, o)
			}
		}
	}
	for i, o := range all {
		if o.stream != nil {
			all[i].Text = lines(strings.ToValidUTF8(string(*o.stream), "\uFFFD"))
		}
	}
	if left := t.left(); left != "" {
		all = append(all, output{Type: "stream", Name: "stderr", Text: []string{"[" + left + "]\n"}})
	}
	return all
}

func picture(i timeline.Image) output {
	title := i.Title
	if title == "" {
		title = "a picture"
	}
	data := map[string]string{"text/plain": title}
	switch {
	case len(i.Data) == 0:
		data["text/plain"] = title + ", which was too large to be sent"
	case i.MIME == "image/svg+xml": // which is text
		data[i.MIME] = string(i.Data)
	default:
		data[i.MIME] = base64.StdEncoding.EncodeToString(i.Data)
	}
	return output{Type: "display_data", Data: data, Metadata: &struct{}{}, source: i.Source}
}

// lines splits text into lines as notebooks have them, each with its newline.
func lines(text string) []string {
	all := []string{}
	for line := range strings.Lines(text) {
		all = append(all, line)
	}
	return all
}
