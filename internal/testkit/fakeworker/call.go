package fakeworker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/ipc"
)

// runCall calls a function of the host with its argument as text, and prints the result.
func runCall(w *fakeWorker, t *workerTurn, argument string) *ipc.RuntimeError {
	name, text, _ := strings.Cut(argument, " ")
	v, failed, err := w.callAndWait(t, name, map[string]any{"text": text})
	if failed == nil && err == nil && v != nil {
		w.printText(ipc.Stdout, fmt.Sprintf("%v\n", v))
	}
	if failed != nil {
		return failed
	}
	return turnError(0, err)
}

// runCallGroup calls a function of a group, which it opens first if it is closed.
func runCallGroup(w *fakeWorker, t *workerTurn, argument string) *ipc.RuntimeError {
	group, member, _ := strings.Cut(argument, " ")
	w.mu.Lock()
	known := slices.Contains(w.groups, group)
	w.mu.Unlock()
	if !known {
		if _, failed, err := w.callAndWait(t, "_open", map[string]any{"group": group}); failed != nil || err != nil {
			if failed != nil {
				return failed
			}
			return turnError(0, err)
		}
	}
	return runCall(w, t, group+"."+member)
}

// addFunctions records the groups in a list of functions.
func (w *fakeWorker) addFunctions(m ipc.Functions) {
	v, _ := ipc.DecodeValue(m.List)
	list, _ := v.([]any)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups = nil
	for _, one := range list {
		fields, _ := one.(map[string]any)
		if group, ok := fields["group"].(string); ok {
			w.groups = append(w.groups, group)
		}
	}
}

// callAndWait calls a function and waits for its result, which is nil if an interrupt ended the
// wait.
func (w *fakeWorker) callAndWait(t *workerTurn, name string, arguments map[string]any) (value any, failed *ipc.RuntimeError, err error) {
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
	args, err := ipc.EncodeValue(arguments)
	if err != nil {
		return nil, nil, err
	}
	w.sendFrame(ipc.Call{ID: id, Turn: t.id, Name: name, Args: args})
	var document []byte
	for {
		select {
		case m := <-results:
			document = append(document, m.Value...)
			if m.More {
				continue
			}
			v, err := ipc.DecodeValue(document)
			if fields, ok := v.(map[string]any); ok && m.Failed {
				return nil, &ipc.RuntimeError{Name: fmt.Sprint(fields["name"]), Message: fmt.Sprint(fields["message"])}, nil
			}
			return v, nil, err
		case <-t.stop:
			w.sendFrame(ipc.CallCancel{ID: id})
			return nil, nil, nil
		}
	}
}

// runRawCall sends calls verbatim, and waits for no result.
func runRawCall(w *fakeWorker, t *workerTurn, argument string) *ipc.RuntimeError {
	number, name, _ := strings.Cut(argument, " ")
	id, err := strconv.ParseUint(number, 10, 64)
	if err == nil {
		w.sendFrame(ipc.Call{ID: id, Turn: t.id, Name: name, Args: []byte{0x80}})
	}
	return turnError(0, err)
}

func runCancelCall(w *fakeWorker, _ *workerTurn, argument string) *ipc.RuntimeError {
	id, err := strconv.ParseUint(argument, 10, 64)
	if err == nil {
		w.sendFrame(ipc.CallCancel{ID: id})
	}
	return turnError(0, err)
}

// deliverResult passes a result to its call, or drops it.
func (w *fakeWorker) deliverResult(m ipc.CallResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if results := w.results[m.ID]; results != nil {
		results <- m
	}
}
