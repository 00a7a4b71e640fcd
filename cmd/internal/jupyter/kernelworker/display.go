package kernelworker

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/ipc"
)

const plainType = "text/plain"

// decodeBundle returns the bytes of each MIME type that a kernel shows: JSON as text, images decoded.
// Types that exceed the bounds of a display are left out and described in leftOut: the largest first,
// and text/plain last.
func decodeBundle(from map[string]json.RawMessage) (data map[string][]byte, leftOut []string) {
	data = make(map[string][]byte, len(from))
	size := 0
	for kind, value := range from {
		if kind == "" || len(kind) > ipc.MaxBriefBytes || string(value) == "null" {
			continue
		}
		data[kind] = decodeContent(kind, value)
		size += len(data[kind])
	}
	for len(data) > ipc.MaxTypes || size > ipc.MaxBundleBytes {
		largest := ""
		for kind := range data {
			if kind != plainType && (largest == "" || len(data[kind]) > len(data[largest])) {
				largest = kind
			}
		}
		if largest == "" {
			largest = plainType
		}
		size -= len(data[largest])
		leftOut = append(leftOut, fmt.Sprintf("%s of %d bytes", largest, len(data[largest])))
		delete(data, largest)
	}
	return data, leftOut
}

// decodeContent returns the bytes of one MIME type.
func decodeContent(kind string, value json.RawMessage) []byte {
	base, _, _ := strings.Cut(kind, ";")
	switch {
	case wire.IsJSON(base):
		return value
	case wire.IsBinary(base):
		text := strings.Join(strings.Fields(valueText(value)), "")
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			return b
		}
	}
	return []byte(valueText(value))
}

// showDisplay shows a display_data, an update_display_data or an execute_result.
func (w *worker) showDisplay(d *displayContent, kind ipc.DisplayKind, update bool) error {
	text := valueText(d.Data[plainType])
	if kind == ipc.DisplayResult {
		if err := w.terminal.writeText(withNewline(text), resultText); err != nil {
			return err
		}
		if _, only := d.Data[plainType]; only && len(d.Data) == 1 && d.Transient.ID == "" {
			return nil
		}
	}
	data, leftOut := decodeBundle(d.Data)
	if len(leftOut) > 0 {
		if err := w.terminal.writeText("[not shown, too large: "+strings.Join(leftOut, ", ")+"]\n", errorText); err != nil {
			return err
		}
	}
	if len(data) == 0 {
		return nil
	}
	m := ipc.Display{Data: data, ID: clipText(d.Transient.ID), Update: update && d.Transient.ID != "", Kind: kind}
	if meta := bytes.TrimSpace(d.Metadata); len(meta) > 2 && len(meta) <= ipc.MaxMetaBytes {
		m.Meta = meta
	}
	return w.sendMarked(func(mark uint64) ipc.Message { m.Mark = mark; return m })
}
