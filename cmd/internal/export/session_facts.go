package export

import (
	"maps"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A SessionFacts holds the facts about a session that its events do not contain.
type SessionFacts struct {
	Name     string
	Runtime  string // the version of its language; may be ""
	Language NotebookLanguage

	// FetchBlob reads data that its events only reference, when the file reaches it. It returns nil
	// for data that is no longer stored. A nil FetchBlob is for events that contain all data.
	FetchBlob func(timeline.Blob) ([]byte, error)
}

// completeDisplay adds the referenced data to a display, as far as it is still stored.
func (s SessionFacts) completeDisplay(d timeline.Display) (timeline.Display, error) {
	data, left := make(map[string][]byte, len(d.Data)), make(map[string]timeline.Blob)
	maps.Copy(data, d.Data)
	for mime, b := range d.Omitted {
		if b.Digest == "" || s.FetchBlob == nil {
			left[mime] = b
			continue
		}
		complete, err := s.FetchBlob(b)
		switch {
		case err != nil:
			return d, err
		case complete == nil:
			left[mime] = timeline.Blob{Bytes: b.Bytes}
		default:
			data[mime] = complete
		}
	}
	d.Data, d.Omitted = data, left
	return d, nil
}

// A NotebookLanguage holds the properties of a language that its files need.
type NotebookLanguage struct {
	Display   string // "Python"
	Extension string // of a script, and the name of that format: "py"
	Comment   string // starts a comment: "#"

	// Kernel is the name of its default Jupyter kernel, and JupyterName the name of the language in
	// Jupyter.
	Kernel, JupyterName string
}

// Formats that every language has. The script format is named by its extension.
const (
	Notebook   = "ipynb"
	Transcript = "txt"
)

// Formats returns the formats for a session of the language; the first is the default.
func (l NotebookLanguage) Formats() []string { return []string{l.Extension, Notebook, Transcript} }
