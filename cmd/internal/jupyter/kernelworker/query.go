package kernelworker

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/ipc"
)

// forwardQuery passes a query on. The kernel answers when it can.
func (w *worker) forwardQuery(m ipc.Query) error {
	cursor := utf8.RuneCountInString(m.Text[:min(m.Cursor, uint64(len(m.Text)))])
	var id string
	var err error
	switch m.Kind {
	case ipc.QueryComplete:
		id, err = w.sendRequest("complete_request", map[string]any{"code": m.Text, "cursor_pos": cursor})
	case ipc.QueryParse:
		id, err = w.sendRequest("is_complete_request", map[string]any{"code": m.Text})
	case ipc.QueryInspect:
		id, err = w.sendRequest("inspect_request", map[string]any{"code": m.Text, "cursor_pos": cursor, "detail_level": 0})
	}
	if err != nil || id == "" {
		return errors.Join(err, w.conn.Send(ipc.QueryResult{ID: m.ID, Status: ipc.StatusTimeout}))
	}
	w.queries[id] = m
	return nil
}

// dropQueries answers what the supervisor does not wait for any more. The kernel is left alone: its
// first completion may load for seconds, and would never be done if it were interrupted.
func (w *worker) dropQueries() error {
	var err error
	for id, q := range w.queries {
		delete(w.queries, id)
		err = errors.Join(err, w.conn.Send(ipc.QueryResult{ID: q.ID, Status: ipc.StatusTimeout}))
	}
	return err
}

// answerQuery passes the kernel's answer on.
func (w *worker) answerQuery(q ipc.Query, m wire.Message) error {
	result := ipc.QueryResult{ID: q.ID, Status: ipc.StatusOK}
	switch q.Kind {
	case ipc.QueryComplete:
		var c completeReply
		_ = json.Unmarshal(m.Content, &c)
		result.Start, result.Matches = c.queryMatches(q)
	case ipc.QueryParse:
		var c isCompleteReply
		_ = json.Unmarshal(m.Content, &c)
		switch c.Status {
		case "incomplete":
			result.Status = ipc.StatusIncomplete
		case "invalid":
			result.Status = ipc.StatusInvalid
		default: // also "unknown": then the kernel decides when it runs it
			result.Status = ipc.StatusComplete
		}
	case ipc.QueryInspect:
		var c struct {
			Found bool                       `json:"found"`
			Data  map[string]json.RawMessage `json:"data"`
		}
		_ = json.Unmarshal(m.Content, &c)
		if c.Found {
			result.Data, _ = decodeBundle(c.Data)
		}
	}
	return w.conn.Send(result)
}

// queryMatches turns the kernel's answer, whose cursors count characters, into that of a query, whose
// queryMatches replace what is before the cursor.
func (c *completeReply) queryMatches(q ipc.Query) (start uint64, matches []string) {
	from := byteAt(q.Text, c.Start)
	if from > int(q.Cursor) || c.Status != "ok" {
		return q.Cursor, nil
	}
	behind := ""
	if end := byteAt(q.Text, c.End); end > int(q.Cursor) {
		behind = q.Text[q.Cursor:end]
	}
	for _, m := range c.Matches {
		if len(matches) < ipc.MaxMatches && len(m) <= ipc.MaxTextBytes {
			matches = append(matches, strings.ToValidUTF8(strings.TrimSuffix(m, behind), "\uFFFD"))
		}
	}
	return uint64(from), matches
}

// byteAt returns where the character with a number begins, in bytes.
func byteAt(text string, character int) int {
	for at := range text {
		if character <= 0 {
			return at
		}
		character--
	}
	return len(text)
}
