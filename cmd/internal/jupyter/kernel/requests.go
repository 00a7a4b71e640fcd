package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/session"
)

// readyTime bounds how long the first kernel_info request waits for the version of a runtime that
// starts.
const readyTime = 10 * time.Second

// queryTime bounds one query of the session, such as a completion.
const queryTime = 10 * time.Second

// patience is how long a query is repeated that the worker did not answer in time, such as the
// first completion, for which a runtime loads a lot.
const patience = 2 * time.Second

// patiently repeats a query.
func patiently[T any](query func() (T, error), unanswered func(T, error) bool) (T, error) {
	for end := time.Now().Add(patience); ; {
		v, err := query()
		if !unanswered(v, err) || time.Now().After(end) {
			return v, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// noAnswer reports whether the worker had no time for an answer, or is only being started.
func noAnswer[T any](_ T, err error) bool {
	refused, ok := errors.AsType[*session.Error](err)
	return ok && (refused.Kind == session.KindNoAnswer || refused.Kind == session.KindBusy && refused.State != nil && (*refused.State == session.StateStarting || *refused.State == session.StatePreparing))
}

// shellRequest handles a message of the shell channel. Requests that need the session come in
// order; the others are answered while it is busy, too.
func (k *kernel) shellRequest(r *request) error {
	queries := map[string]func(context.Context, *request){
		"complete_request":    k.complete,
		"inspect_request":     k.inspect,
		"is_complete_request": k.isComplete,
		"history_request":     k.history,
	}
	if r.Header.Type == "execute_request" {
		return k.execute(r)
	}
	if query, ok := queries[r.Header.Type]; ok {
		return k.shell.add(&job{request: r, say: func(ctx context.Context, j *job) {
			ctx, cancel := context.WithTimeout(ctx, queryTime)
			defer cancel()
			query(ctx, r)
		}})
	}
	return k.controlRequest(r)
}

// controlRequest handles a message of the control channel.
func (k *kernel) controlRequest(r *request) error {
	switch r.Header.Type {
	case "kernel_info_request":
		k.answer(r, "kernel_info_reply", k.info())
	case "interrupt_request":
		k.busy(&r.Header)
		k.interrupt()
		k.reply(r, "interrupt_reply", map[string]any{"status": "ok"}, nil)
		k.idle(&r.Header)
	case "shutdown_request":
		k.shutdown(r)
	case "comm_info_request":
		k.answer(r, "comm_info_reply", map[string]any{"status": "ok", "comms": struct{}{}})
	case "comm_open":
		k.refuseComm(r)
	case "connect_request":
		c := &k.o.Connection
		k.answer(r, "connect_reply", map[string]any{
			"status":     "ok",
			"shell_port": c.Shell, "iopub_port": c.IOPub, "stdin_port": c.Stdin, "control_port": c.Control, "hb_port": c.Heartbeat,
		})
	default: // Front ends that send more than we know wait for no answer, but for the statuses.
		k.busy(&r.Header)
		k.idle(&r.Header)
	}
	return nil
}

// info is the content of a kernel_info reply.
func (k *kernel) info() map[string]any {
	language, banner := k.describe()
	return map[string]any{
		"status": "ok", "protocol_version": "5.4", "implementation": "turnstone", "implementation_version": k.o.Version,
		"language_info": language, "banner": banner, "debugger": false, "help_links": []any{}, "supported_features": []any{},
	}
}

// describe says which language it is, in which session. It waits for a runtime that starts.
func (k *kernel) describe() (Language, string) {
	ctx, cancel := context.WithTimeout(k.ctx, readyTime)
	defer cancel()
	l, err := k.sessions.get(ctx)
	if err != nil {
		return k.o.Language(""), "There is no session: " + err.Error()
	}
	for {
		_, _, changed, _ := l.state(0)
		info, err := l.s.Info(ctx)
		language := k.o.Language(info.Language)
		language.Version = info.RuntimeVersion
		if err != nil || info.RuntimeVersion != "" || info.State != session.StateStarting || ctx.Err() != nil {
			return language, strings.TrimSpace(language.Name+" "+info.RuntimeVersion) + " in the session " + l.s.Name() + ", repl " + k.o.Version
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond): // Not every step of a start is an event.
		case <-ctx.Done():
		}
	}
}

// refuseComm closes a comm that a front end opens: there is nobody to talk to.
func (k *kernel) refuseComm(r *request) {
	var content struct {
		ID string `json:"comm_id"`
	}
	_ = json.Unmarshal(r.Content, &content)
	k.busy(&r.Header)
	k.subs.tell(&r.Header, "comm_close", map[string]any{"comm_id": content.ID, "data": struct{}{}})
	k.idle(&r.Header)
}

// shutdown leaves the session or ends it, or resets it before a restart, and then leaves.
func (k *kernel) shutdown(r *request) {
	var content struct {
		Restart bool `json:"restart"`
	}
	_ = json.Unmarshal(r.Content, &content)
	k.busy(&r.Header)
	if l, _ := k.sessions.current(); l != nil && l.alive() {
		ctx, cancel := context.WithTimeout(k.ctx, queryTime)
		defer cancel()
		var err error
		switch {
		case content.Restart && k.o.ResetsSession:
			err = l.s.Reset(ctx)
		case !content.Restart && k.o.EndsSession:
			err = l.s.Close(ctx)
		}
		if err != nil && !gone(err) {
			k.note("the session %s: %v", l.s.Name(), err)
		}
	}
	answer := map[string]any{"status": "ok", "restart": content.Restart}
	k.reply(r, "shutdown_reply", answer, nil)
	k.subs.tell(&r.Header, "shutdown_reply", answer)
	k.idle(&r.Header)
	k.leave(r)
}

// leave ends the kernel once the reply to a shutdown is written.
func (k *kernel) leave(r *request) {
	r.conn.Flush(lastWords)
	k.stop()
}

// A position is where in a code a front end asks something. It counts code points.
type position struct {
	Code   string `json:"code"`
	Cursor int    `json:"cursor_pos"`
}

// positionOf reads a request with a position. Without one it is the end of the code.
func positionOf(r *request) position {
	p := position{Cursor: -1}
	_ = json.Unmarshal(r.Content, &p)
	if n := utf8.RuneCountInString(p.Code); p.Cursor < 0 || p.Cursor > n {
		p.Cursor = n
	}
	return p
}

// bytes is the position in bytes.
func (p position) bytes() int {
	left := p.Cursor
	for i := range p.Code {
		if left == 0 {
			return i
		}
		left--
	}
	return len(p.Code)
}

// points turns a position in bytes into code points.
func (p position) points(bytes int) int {
	return utf8.RuneCountInString(p.Code[:max(0, min(bytes, len(p.Code)))])
}

func (k *kernel) complete(ctx context.Context, r *request) {
	p := positionOf(r)
	content := map[string]any{
		"status": "ok", "matches": []string{}, "cursor_start": p.Cursor, "cursor_end": p.Cursor, "metadata": struct{}{},
	}
	if l, err := k.sessions.get(ctx); err == nil {
		query := func() (session.Completion, error) { return l.s.Complete(ctx, p.Code, p.bytes()) }
		if c, err := patiently(query, noAnswer); err == nil && len(c.Matches) > 0 {
			content["matches"], content["cursor_start"] = c.Matches, p.points(c.Start)
		}
	}
	k.answer(r, "complete_reply", content)
}

func (k *kernel) inspect(ctx context.Context, r *request) {
	p := positionOf(r)
	content := map[string]any{"status": "ok", "found": false, "data": struct{}{}, "metadata": struct{}{}}
	if l, err := k.sessions.get(ctx); err == nil {
		query := func() (session.Inspection, error) { return l.s.Inspect(ctx, p.Code, p.bytes()) }
		if i, err := patiently(query, noAnswer); err == nil && i.Found {
			content["found"], content["data"] = true, i.Data
		}
	}
	k.answer(r, "inspect_reply", content)
}

func (k *kernel) isComplete(ctx context.Context, r *request) {
	p := positionOf(r)
	status := session.ParseUnknown
	if l, err := k.sessions.get(ctx); err == nil {
		query := func() (session.ParseStatus, error) { return l.s.Parse(ctx, p.Code) }
		if s, err := patiently(query, func(s session.ParseStatus, err error) bool {
			return noAnswer(s, err) || err == nil && s == session.ParseUnknown
		}); err == nil {
			status = s
		}
	}
	content := map[string]any{"status": string(status)}
	if status == session.ParseIncomplete {
		content["indent"] = indentOf(p.Code)
	}
	k.answer(r, "is_complete_reply", content)
}

// indentOf is the blank at the beginning of the last line that is not blank, and more of it behind
// what opens a block.
func indentOf(code string) string {
	code = strings.TrimRight(code, " \t\n")
	last := code[strings.LastIndexByte(code, '\n')+1:]
	indent := last[:len(last)-len(strings.TrimLeft(last, " \t"))]
	if strings.HasSuffix(last, ":") || strings.HasSuffix(last, "{") {
		indent += "    "
	}
	return indent
}
