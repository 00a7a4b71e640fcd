package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
)

// maxExpressions bounds the expressions of one request.
const maxExpressions = 32

// evaluateExpressions evaluates the user expressions of a request, each in a silent turn.
func (k *kernel) evaluateExpressions(ctx context.Context, l *attachedSession, j *queuedRequest) map[string]any {
	values := make(map[string]any)
	for name, code := range j.execute.Expressions {
		if len(values) == maxExpressions {
			break
		}
		values[name] = k.evaluateExpression(ctx, l, j, code)
	}
	return values
}

func (k *kernel) evaluateExpression(ctx context.Context, l *attachedSession, j *queuedRequest, code string) map[string]any {
	if info, err := l.session.Info(ctx); err == nil {
		if show := k.options.Language(info.Language).PrintFormat; show != "" {
			code = fmt.Sprintf(show, code) // a silent turn does not echo values
		}
	}
	n, err := l.submitTurn(ctx, nil, code, true) // nil, because no cell has started this turn
	if err != nil {
		return failedExpression(&errorContent{Name: "NotExecuted", Value: err.Error(), Traceback: []string{}})
	}
	k.shell.mu.Lock()
	j.turn = n
	k.shell.mu.Unlock()
	reply, err := l.session.Wait(ctx, n, nil)
	if err == nil && reply.InputRequest != nil { // an expression cannot ask for input
		_, _ = l.session.Interrupt(k.ctx, n)
		reply, err = l.session.Wait(ctx, n, nil)
	}
	if err != nil {
		_, _ = l.session.Interrupt(k.ctx, n)
		return failedExpression(&errorContent{Name: "NotExecuted", Value: err.Error(), Traceback: []string{}})
	}
	return expressionValue(reply.Events)
}

// expressionValue returns the value or the failure among the events of a turn.
func expressionValue(events []timeline.Event) map[string]any {
	var echo []byte
	data := make(map[string]any)
	meta := json.RawMessage("{}")
	for _, e := range events {
		switch b := e.Body.(type) {
		case timeline.Text:
			if b.Kind != timeline.TextTraceback && b.Stream == timeline.Stdout {
				echo = append(echo, b.Data...)
			}
		case timeline.Display:
			data, meta = mimeBundle(b), b.PortableMeta()
		case timeline.TurnEnded:
			if f := newErrorContent(b, nil, nil); f != nil { // without the traceback, which shows internal code
				return failedExpression(f)
			}
		}
	}
	if _, ok := data["text/plain"]; !ok {
		data["text/plain"] = strings.TrimSuffix(string(echo), "\n")
	}
	return map[string]any{"status": "ok", "data": data, "metadata": meta}
}

func failedExpression(f *errorContent) map[string]any {
	return map[string]any{"status": "error", "ename": f.Name, "evalue": f.Value, "traceback": f.Traceback}
}
