package fakeworker

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/ipc"
)

// call calls a function of the host with its argument as text, and prints the result.
func call(w *worker, t *turn, argument string) *ipc.RuntimeError {
	name, text, _ := strings.Cut(argument, " ")
	w.mu.Lock()
	w.calls++
	id, results := w.calls, make(chan ipc.CallResult, 1<<10)
	if w.results == nil {
		w.results = map[uint64]chan ipc.CallResult{}
	}
	w.results[id] = results
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.results, id)
		w.mu.Unlock()
	}()
	args, err := ipc.EncodeDocument(map[string]any{"text": text})
	if err != nil {
		return fail(0, err)
	}
	w.send(ipc.Call{ID: id, Turn: t.id, Name: name, Args: args})
	var document []byte
	for {
		select {
		case m := <-results:
			document = append(document, m.Value...)
			if m.More {
				continue
			}
			v, err := ipc.DecodeDocument(document)
			if fields, ok := v.(map[string]any); ok && m.Failed {
				return &ipc.RuntimeError{Name: fmt.Sprint(fields["name"]), Message: fmt.Sprint(fields["message"])}
			}
			if err == nil {
				w.print(ipc.Stdout, fmt.Sprintf("%v\n", v))
			}
			return fail(0, err)
		case <-t.stop:
			w.send(ipc.CallCancel{ID: id})
			return nil
		}
	}
}

// rawCall sends calls as they are, and waits for no result.
func rawCall(w *worker, t *turn, argument string) *ipc.RuntimeError {
	number, name, _ := strings.Cut(argument, " ")
	id, err := strconv.ParseUint(number, 10, 64)
	if err == nil {
		w.send(ipc.Call{ID: id, Turn: t.id, Name: name, Args: []byte{0x80}})
	}
	return fail(0, err)
}

func cancelCall(w *worker, _ *turn, argument string) *ipc.RuntimeError {
	id, err := strconv.ParseUint(argument, 10, 64)
	if err == nil {
		w.send(ipc.CallCancel{ID: id})
	}
	return fail(0, err)
}

// result gives a result to its call, or drops it.
func (w *worker) result(m ipc.CallResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if results := w.results[m.ID]; results != nil {
		results <- m
	}
}
