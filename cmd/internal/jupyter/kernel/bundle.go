package kernel

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// mimeBundle returns the data of a display in the form of messages: JSON unchanged, text as text, and
// all else in base64. Omitted types are named in text/plain.
func mimeBundle(d timeline.Display) map[string]any {
	data := make(map[string]any, len(d.Data)+1)
	for mime, bytes := range d.Data {
		switch {
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
			left = append(left, fmt.Sprintf("%s of %d bytes", mime, d.Omitted[mime].Bytes))
		}
		data["text/plain"] = "[omitted: " + strings.Join(left, ", ") + "]"
	}
	return data
}

func displayMetadata(d timeline.Display) json.RawMessage {
	if len(d.Meta) == 0 || !json.Valid(d.Meta) {
		return json.RawMessage("{}")
	}
	return d.Meta
}

func displayTransient(d timeline.Display) map[string]string {
	if d.ID == "" {
		return map[string]string{}
	}
	return map[string]string{"display_id": d.ID}
}

// maxBlobBytes bounds the omitted data that is fetched for a display: a message has at most 64 MiB, and
// base64 adds a third.
const maxBlobBytes = 40 << 20

// completeDisplay fetches the omitted data of a display, as far as a message has room for it.
func (s *attachedSession) completeDisplay(ctx context.Context, d timeline.Display) timeline.Display {
	room := int64(maxBlobBytes)
	omitted := make(map[string]timeline.Blob)
	data := maps.Clone(d.Data)
	for mime, b := range d.Omitted {
		whole, err := s.fetchBlob(ctx, b, room)
		if err != nil {
			omitted[mime] = b
			continue
		}
		room -= b.Bytes
		if data == nil {
			data = make(map[string][]byte)
		}
		data[mime] = whole
	}
	d.Data, d.Omitted = data, omitted
	return d
}

// fetchBlob reads data by its digest.
func (s *attachedSession) fetchBlob(ctx context.Context, b timeline.Blob, room int64) ([]byte, error) {
	if b.Digest == "" || b.Bytes > room {
		return nil, session.Errorf(session.KindTooLarge, "%d bytes do not fit into a message", b.Bytes)
	}
	return session.ReadBlob(ctx, s.session, b)
}
