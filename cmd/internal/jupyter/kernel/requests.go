package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/comms"
	"github.com/turnstone-repl/turnstone/session"
)

// readyTimeout bounds how long the first kernel_info request waits for the version of a starting
// runtime.
const readyTimeout = 10 * time.Second

// queryTimeout bounds one query of the session, such as a completion.
const queryTimeout = 10 * time.Second

// queryRetryTimeout bounds the retries of a query that the worker did not answer in time. The first
// completion often needs them, because a runtime loads a lot of code for it.
const queryRetryTimeout = 2 * time.Second

// retryQuery repeats a query until it is answered or queryRetryTimeout has passed.
func retryQuery[T any](query func() (T, error), unanswered func(T, error) bool) (T, error) {
	for end := time.Now().Add(queryRetryTimeout); ; {
		v, err := query()
		if !unanswered(v, err) || time.Now().After(end) {
			return v, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// isUnanswered reports whether the worker had no time to answer, or is still being started.
func isUnanswered[T any](_ T, err error) bool {
	refused, ok := errors.AsType[*session.Error](err)
	return ok && (refused.Kind == session.KindNoAnswer || refused.Kind == session.KindBusy && refused.State != nil && (*refused.State == session.StateStarting || *refused.State == session.StatePreparing))
}

// handleShellRequest handles a message of the shell channel. Requests that need the session are answered
// in order; the others are answered even while it is busy.
func (k *kernel) handleShellRequest(r *peerRequest) error {
	queries := map[string]func(context.Context, *peerRequest){
		"complete_request":    k.answerComplete,
		"inspect_request":     k.answerInspect,
		"is_complete_request": k.answerIsComplete,
		"history_request":     k.answerHistory,
	}
	if r.Header.Type == "execute_request" {
		return k.queueExecute(r)
	}
	if query, ok := queries[r.Header.Type]; ok {
		return k.shell.addRequest(&queuedRequest{peerRequest: r, answer: func(ctx context.Context, j *queuedRequest) {
			ctx, cancel := context.WithTimeout(ctx, queryTimeout)
			defer cancel()
			query(ctx, r)
		}})
	}
	return k.handleControlRequest(r)
}

// handleControlRequest handles a message of the control channel.
func (k *kernel) handleControlRequest(r *peerRequest) error {
	switch r.Header.Type {
	case "kernel_info_request":
		k.sendPlainReply(r, "kernel_info_reply", k.infoContent())
	case "interrupt_request":
		k.publishBusy(&r.Header)
		k.interruptCurrent()
		k.sendReply(r, "interrupt_reply", map[string]any{"status": "ok"}, nil)
		k.publishIdle(&r.Header)
	case "shutdown_request":
		k.answerShutdown(r)
	case "comm_info_request", "comm_open", "comm_msg", "comm_close":
		k.answerComm(r)
	case "connect_request":
		c := &k.options.Connection
		k.sendPlainReply(r, "connect_reply", map[string]any{
			"status":     "ok",
			"shell_port": c.Shell, "iopub_port": c.IOPub, "stdin_port": c.Stdin, "control_port": c.Control, "hb_port": c.Heartbeat,
		})
	default: // front ends that send unknown messages wait only for the statuses, not for a reply
		k.publishBusy(&r.Header)
		k.publishIdle(&r.Header)
	}
	return nil
}

// infoContent returns the content of a kernel_info reply.
func (k *kernel) infoContent() map[string]any {
	language, banner := k.languageInfo()
	return map[string]any{
		"status": "ok", "protocol_version": "5.4", "implementation": "turnstone", "implementation_version": k.options.Version,
		"language_info": language, "banner": banner, "debugger": false, "help_links": []any{}, "supported_features": []any{},
	}
}

// languageInfo returns the session's language and a banner. It waits for a runtime that is starting.
func (k *kernel) languageInfo() (LanguageInfo, string) {
	ctx, cancel := context.WithTimeout(k.ctx, readyTimeout)
	defer cancel()
	l, err := k.sessions.ensureSession(ctx)
	if err != nil {
		return k.options.Language(""), "No session: " + err.Error()
	}
	for {
		_, _, changed, _ := l.turnState(0)
		info, err := l.session.Info(ctx)
		language := k.options.Language(info.Language)
		language.Version = info.RuntimeVersion
		if err != nil || info.RuntimeVersion != "" || info.State != session.StateStarting || ctx.Err() != nil {
			return language, strings.TrimSpace(language.Name+" "+info.RuntimeVersion) + " in the session " + l.session.Name() + ", repl " + k.options.Version
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond): // not every step of a start is an event
		case <-ctx.Done():
		}
	}
}

// answerComm answers a message about comms. Those that have no answer are ignored.
func (k *kernel) answerComm(r *peerRequest) {
	ctx, cancel := context.WithTimeout(k.ctx, queryTimeout)
	defer cancel()
	l, err := k.sessions.ensureSession(ctx)
	if err != nil {
		l = &attachedSession{}
	}
	if r.Header.Type == "comm_info_request" {
		k.sendPlainReply(r, "comm_info_reply", comms.Info(ctx, l.session, r.Content))
		return
	}
	k.publishBusy(&r.Header)
	if m := k.controls.Answer(ctx, l.session, r.Header.Type, r.Content); m.Kind != "" {
		k.subs.publishComm(&r.Header, m)
	}
	k.publishIdle(&r.Header)
}

// answerShutdown ends the kernel. Before that, it ends the session, resets it for a restart, or leaves
// it running.
func (k *kernel) answerShutdown(r *peerRequest) {
	var content struct {
		Restart bool `json:"restart"`
	}
	_ = json.Unmarshal(r.Content, &content)
	k.publishBusy(&r.Header)
	if l, _ := k.sessions.latestSession(); l != nil && l.isAlive() {
		ctx, cancel := context.WithTimeout(k.ctx, queryTimeout)
		defer cancel()
		var err error
		switch {
		case content.Restart && k.options.ResetsSession:
			err = l.session.Reset(ctx)
		case !content.Restart && k.options.EndsSession:
			err = l.session.Close(ctx)
		}
		if err != nil && !isSessionGone(err) {
			k.printNotice("session %s: %v", l.session.Name(), err)
		}
	}
	answer := map[string]any{"status": "ok", "restart": content.Restart}
	k.sendReply(r, "shutdown_reply", answer, nil)
	k.subs.publish(&r.Header, "shutdown_reply", answer)
	k.publishIdle(&r.Header)
	k.exitAfterReply(r)
}

// exitAfterReply ends the kernel once the reply to a shutdown is written.
func (k *kernel) exitAfterReply(r *peerRequest) {
	r.conn.Flush(drainTimeout)
	k.stop()
}

// A cursorPosition is a position in code for which a front end asks something. It counts code points.
type cursorPosition struct {
	Code   string `json:"code"`
	Cursor int    `json:"cursor_pos"`
}

// parsePosition reads the position of a request, by default the end of the code.
func parsePosition(r *peerRequest) cursorPosition {
	p := cursorPosition{Cursor: -1}
	_ = json.Unmarshal(r.Content, &p)
	if n := utf8.RuneCountInString(p.Code); p.Cursor < 0 || p.Cursor > n {
		p.Cursor = n
	}
	return p
}

// byteOffset returns the position in bytes.
func (p cursorPosition) byteOffset() int {
	left := p.Cursor
	for i := range p.Code {
		if left == 0 {
			return i
		}
		left--
	}
	return len(p.Code)
}

// codePoints converts a position in bytes to code points.
func (p cursorPosition) codePoints(bytes int) int {
	return utf8.RuneCountInString(p.Code[:max(0, min(bytes, len(p.Code)))])
}

func (k *kernel) answerComplete(ctx context.Context, r *peerRequest) {
	p := parsePosition(r)
	content := map[string]any{
		"status": "ok", "matches": []string{}, "cursor_start": p.Cursor, "cursor_end": p.Cursor, "metadata": struct{}{},
	}
	if l, err := k.sessions.ensureSession(ctx); err == nil {
		query := func() (session.Completion, error) { return l.session.Complete(ctx, p.Code, p.byteOffset()) }
		if c, err := retryQuery(query, isUnanswered); err == nil && len(c.Matches) > 0 {
			content["matches"], content["cursor_start"] = c.Matches, p.codePoints(c.Start)
		}
	}
	k.sendPlainReply(r, "complete_reply", content)
}

func (k *kernel) answerInspect(ctx context.Context, r *peerRequest) {
	p := parsePosition(r)
	content := map[string]any{"status": "ok", "found": false, "data": struct{}{}, "metadata": struct{}{}}
	if l, err := k.sessions.ensureSession(ctx); err == nil {
		query := func() (session.Inspection, error) { return l.session.Inspect(ctx, p.Code, p.byteOffset()) }
		if i, err := retryQuery(query, isUnanswered); err == nil && i.Found {
			content["found"], content["data"] = true, i.Data
		}
	}
	k.sendPlainReply(r, "inspect_reply", content)
}

func (k *kernel) answerIsComplete(ctx context.Context, r *peerRequest) {
	p := parsePosition(r)
	status := session.ParseUnknown
	if l, err := k.sessions.ensureSession(ctx); err == nil {
		query := func() (session.ParseStatus, error) { return l.session.Parse(ctx, p.Code) }
		if s, err := retryQuery(query, func(s session.ParseStatus, err error) bool {
			return isUnanswered(s, err) || err == nil && s == session.ParseUnknown
		}); err == nil {
			status = s
		}
	}
	content := map[string]any{"status": string(status)}
	if status == session.ParseIncomplete {
		content["indent"] = indentOf(p.Code)
	}
	k.sendPlainReply(r, "is_complete_reply", content)
}

// indentOf returns the indentation for the next line. It copies the last line that is not blank,
// and adds four spaces after a line that opens a block.
func indentOf(code string) string {
	code = strings.TrimRight(code, " \t\n")
	last := code[strings.LastIndexByte(code, '\n')+1:]
	indent := last[:len(last)-len(strings.TrimLeft(last, " \t"))]
	if strings.HasSuffix(last, ":") || strings.HasSuffix(last, "{") {
		indent += "    "
	}
	return indent
}

func (k *kernel) answerHistory(ctx context.Context, r *peerRequest) {
	var q historyQuery
	content := map[string]any{"status": "ok", "history": []any{}}
	if err := json.Unmarshal(r.Content, &q); err != nil {
		f := failedExpression(&errorContent{Name: "ValueError", Value: "malformed request: " + err.Error(), Traceback: []string{}})
		f["history"] = []any{}
		k.sendPlainReply(r, "history_reply", f)
		return
	}
	if l, err := k.sessions.ensureSession(ctx); err == nil {
		content["history"] = q.historyEntries(k.pastInputs.listInputs(ctx, l), func(i historyInput) string { return i.valueText(ctx, l) })
	}
	k.sendPlainReply(r, "history_reply", content)
}
