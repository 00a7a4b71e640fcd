package fakeworker

import (
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/ipc"
)

// tableType is the MIME type of a table; fakeTable is the table with the handle t1.
const tableType = "application/vnd.turnstone.table+json"

const fakeTable = `{"v":1,"columns":[{"name":"a","type":"int","align":"right"}],"index":["0"],"rows":[["1"]],"total":[1,1],"matched":1,"handle":"t1"}`

// answerQuery answers a query. The names of commands complete a word. A script is incomplete while
// its last line ends in a backslash, and invalid if it contains "?". It lists one variable, and
// reports one more. "hang" blocks until it is interrupted.
func (w *fakeWorker) answerQuery(m ipc.Query) {
	if m.Text == "hang" {
		w.mu.Lock()
		t := newWorkerTurn(0)
		w.active = t
		w.mu.Unlock()
		go func() {
			<-t.stop
			w.mu.Lock()
			w.active = nil
			w.mu.Unlock()
			w.sendFrame(ipc.QueryResult{ID: m.ID, Status: ipc.StatusTimeout})
		}()
		return
	}
	result := ipc.QueryResult{ID: m.ID}
	switch {
	case m.Kind == ipc.QueryVariables:
		result.Status, result.More = ipc.StatusOK, 1
		result.Variables = []ipc.Variable{{Name: "answer", Type: "number", Shape: "1", Bytes: 8}}
	case m.Kind == ipc.QueryInspect:
		result.Status = ipc.StatusOK
		if slices.Contains(commandNames(), m.Text) {
			result.Data = displayBundle("the command " + m.Text)
		}
	case m.Kind == ipc.QueryTable:
		result.Status = ipc.StatusOK
		if strings.Contains(m.Text, `"handle":"t1"`) {
			result.Data = map[string][]byte{tableType: []byte(fakeTable)}
		}
	case m.Kind == ipc.QueryComplete:
		text := m.Text[:min(m.Cursor, uint64(len(m.Text)))]
		start := strings.LastIndexByte(text, '\n') + 1
		result.Status, result.Start = ipc.StatusOK, uint64(start)
		for _, name := range commandNames() {
			if strings.HasPrefix(name, text[start:]) {
				result.Matches = append(result.Matches, name)
			}
		}
		slices.Sort(result.Matches)
	case strings.Contains(m.Text, "?") && m.Dialect == "":
		result.Status = ipc.StatusInvalid
	case strings.HasSuffix(m.Text, "\\"):
		result.Status = ipc.StatusIncomplete
	default:
		result.Status = ipc.StatusComplete
	}
	w.sendFrame(result)
}
