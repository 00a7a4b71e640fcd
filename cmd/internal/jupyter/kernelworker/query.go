package kernelworker

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/ipc"
)

// forwardQuery passes a query to the kernel, which answers when it can.
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

// dropQueries answers the queries that the supervisor no longer waits for. It does not interrupt the
// kernel: its first completion may load for seconds, and would never finish if it were interrupted.
func (w *worker) dropQueries() error {
	var err error
	for id, q := range w.queries {
		delete(w.queries, id)
		err = errors.Join(err, w.conn.Send(ipc.QueryResult{ID: q.ID, Status: ipc.StatusTimeout}))
	}
	return err
}

// answerQuery passes the kernel's answer to the supervisor.
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
		default: // includes "unknown": then the kernel decides when it runs the code
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

// queryMatches converts the completions of the kernel into the matches of a query. The kernel's
// cursors count characters. The matches of a query replace the text before the cursor.
func (c *completeReply) queryMatches(q ipc.Query) (start uint64, matches []string) {
	from := byteAt(q.Text, c.Start)
	if from > int(q.Cursor) || c.Status != "ok" {
		return q.Cursor, nil
	}
	suffix := ""
	if end := byteAt(q.Text, c.End); end > int(q.Cursor) {
		suffix = q.Text[q.Cursor:end]
	}
	for _, m := range c.Matches {
		if len(matches) < ipc.MaxMatches && len(m) <= ipc.MaxTextBytes {
			matches = append(matches, strings.ToValidUTF8(strings.TrimSuffix(m, suffix), "\uFFFD"))
		}
	}
	return uint64(from), matches
}

// byteAt returns the byte offset of the character with the given index.
func byteAt(text string, character int) int {
	for at := range text {
		if character <= 0 {
			return at
		}
		character--
	}
	return len(text)
}
