package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxWaitTime is the longest time that a call may wait for a turn.
	maxWaitTime = 24 * time.Hour

	// interruptTimeout is how long the interrupt of a cancelled call may take.
	interruptTimeout = 2 * time.Second
)

// newHandler returns a handler that decodes the params for f and encodes its errors for clients.
func newHandler[P, R any](f func(ctx context.Context, r *rpcserver.Request, p P) (R, error)) rpcserver.Handler {
	return func(ctx context.Context, r *rpcserver.Request) (any, error) {
		var p P
		if err := r.Decode(&p); err != nil {
			return nil, err
		}
		result, err := f(ctx, r, p)
		if err != nil {
			return nil, clientError(err)
		}
		return result, nil
	}
}

const (
	// firstProgressDelay is the time after which a long call first reports progress, and
	// progressInterval the pause between later reports.
	firstProgressDelay = time.Second
	progressInterval   = 5 * time.Second
)

// withDurationProgress makes a call report its duration in seconds as progress, if the caller asked
// for progress.
func (d *Daemon) withDurationProgress(h rpcserver.Handler) rpcserver.Handler {
	return func(ctx context.Context, r *rpcserver.Request) (any, error) {
		if r.ProgressToken() != nil {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			d.wg.Go(func() { d.reportDuration(ctx, r) })
		}
		return h(ctx, r)
	}
}

func (d *Daemon) reportDuration(ctx context.Context, r *rpcserver.Request) {
	var p protocol.NameParams
	_ = json.Unmarshal(r.Params, &p) // the method itself reports the error
	start := time.Now()
	timer := time.NewTimer(firstProgressDelay)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(progressInterval)
		}
		e, err := d.findSession(p.Session)
		if err != nil {
			return
		}
		state := d.describeSession(e).State
		elapsed := time.Since(start)
		if r.ReportProgress(elapsed.Seconds(), 0, fmt.Sprintf("%s, %.1f s", state, elapsed.Seconds())) != nil {
			return
		}
	}
}

func (d *Daemon) methodHandlers() map[string]rpcserver.Handler {
	return map[string]rpcserver.Handler{
		protocol.MethodInfo:             newHandler(d.handleInfo),
		protocol.MethodPing:             newHandler(d.handlePing),
		protocol.MethodMetrics:          newHandler(d.handleMetrics),
		protocol.MethodCreate:           newHandler(d.handleCreate),
		protocol.MethodList:             newHandler(d.handleList),
		protocol.MethodGet:              newHandler(d.handleGet),
		protocol.MethodResize:           newHandler(d.handleResize),
		protocol.MethodScreen:           newHandler(d.handleScreen),
		protocol.MethodReset:            d.withDurationProgress(newHandler(d.handleReset)),
		protocol.MethodClose:            newHandler(d.handleClose),
		protocol.MethodStart:            d.withDurationProgress(newHandler(d.handleStart)),
		protocol.MethodInput:            d.withDurationProgress(newHandler(d.handleInput)),
		protocol.MethodType:             newHandler(d.handleType),
		protocol.MethodWait:             d.withDurationProgress(newHandler(d.handleWait)),
		protocol.MethodInterrupt:        newHandler(d.handleInterrupt),
		protocol.MethodGrant:            newHandler(d.handleGrant),
		protocol.MethodAnswerPermission: newHandler(d.handleAnswerPermission),
		protocol.MethodComplete:         newHandler(d.handleComplete),
		protocol.MethodInspect:          newHandler(d.handleInspect),
		protocol.MethodTablePage:        newHandler(d.handleTablePage),
		protocol.MethodComms:            newHandler(d.handleComms),
		protocol.MethodParse:            newHandler(d.handleParse),
		protocol.MethodVariables:        newHandler(d.handleVariables),
		protocol.MethodDestinations:     newHandler(d.handleDestinations),
		protocol.MethodVisibleHome:      newHandler(d.handleVisibleHome),
		protocol.MethodRead:             newHandler(d.handleRead),
		protocol.MethodOutline:          newHandler(d.handleOutline),
		protocol.MethodSearch:           newHandler(d.handleSearch),
		protocol.MethodBlob:             newHandler(d.handleBlob),
		protocol.MethodFiles:            newHandler(d.handleFiles),
		protocol.MethodFile:             newHandler(d.handleFile),
		protocol.MethodPutFile:          newHandler(d.handlePutFile),
		protocol.MethodRemoveFile:       newHandler(d.handleRemoveFile),
		protocol.MethodListCrashed:      newHandler(d.handleListCrashed),
		protocol.MethodLibrary:          newHandler(d.handleLibrary),
		protocol.MethodOutput:           newHandler(d.handleOutput),
		protocol.MethodReadCursor:       newHandler(d.handleReadCursor),
		protocol.MethodClients:          newHandler(d.handleClients),
		protocol.MethodDetach:           newHandler(d.handleDetach),
		protocol.MethodListFunctions:    newHandler(d.handleListFunctions),
		protocol.MethodArguments:        newHandler(d.handleArguments),
	}
}

// handleInfo returns the description of the daemon. The call does not count as use.
func (d *Daemon) handleInfo(context.Context, *rpcserver.Request, emptyResult) (protocol.DaemonInfo, error) {
	return d.daemonInfo(), nil
}

// handlePing answers, which shows a client that the daemon can be reached. The call does not count
// as use.
func (d *Daemon) handlePing(context.Context, *rpcserver.Request, emptyResult) (emptyResult, error) {
	return emptyResult{}, nil
}

func (d *Daemon) handleCreate(ctx context.Context, r *rpcserver.Request, p protocol.CreateParams) (session.Info, error) {
	d.noteUse()
	params, err := json.Marshal(p)
	if err != nil {
		return session.Info{}, err
	}
	created, err := runOnce(ctx, d, r, retryableCall{p.Request, p.Name, params}, func(opening context.Context) (turnHandle, error) {
		e, err := d.createSession(opening, ctx, r, p)
		if err != nil {
			return turnHandle{}, err
		}
		return newTurnHandle(e, 0), nil
	})
	if err != nil {
		return session.Info{}, err
	}
	e, err := d.sessionOfTurn(created)
	if err != nil {
		return session.Info{}, err
	}
	return d.describeSession(e), nil
}

// handleList lists the sessions. The call does not count as use.
func (d *Daemon) handleList(context.Context, *rpcserver.Request, emptyResult) (struct {
	Sessions []session.Info `json:"sessions"`
}, error) {
	var result struct {
		Sessions []session.Info `json:"sessions"`
	}
	result.Sessions = []session.Info{}
	for _, e := range d.sortedSessions() {
		result.Sessions = append(result.Sessions, d.describeSession(e))
	}
	return result, nil
}

func (d *Daemon) handleGet(_ context.Context, _ *rpcserver.Request, p protocol.NameParams) (session.Info, error) {
	e, err := d.findSession(p.Session)
	if err != nil {
		return session.Info{}, err
	}
	return d.describeSession(e), nil
}

func (d *Daemon) handleReset(ctx context.Context, r *rpcserver.Request, p protocol.EndParams) (session.Info, error) {
	d.noteUse()
	c := d.clientOf(r.Conn) // before runOnce, because the client may have another connection by then
	return runOnce(ctx, d, r, retryableCall{p.Request, p.Session, nil}, func(ctx context.Context) (session.Info, error) {
		e, err := d.useSession(p.Session)
		if err == nil {
			err = d.checkWriteAccess(e, c)
		}
		if err == nil {
			d.log.Info("session reset", "session", e.name, "by", d.clientLabel(r.Conn))
			err = d.sessionError(e, e.session.Reset(ctx))
		}
		if err != nil {
			return session.Info{}, err
		}
		return d.describeSession(e), nil
	})
}

func (d *Daemon) handleClose(ctx context.Context, r *rpcserver.Request, p protocol.EndParams) (emptyResult, error) {
	d.noteUse()
	c := d.clientOf(r.Conn) // before runOnce, because the client may have another connection by then
	return runOnce(ctx, d, r, retryableCall{p.Request, p.Session, nil}, func(ctx context.Context) (emptyResult, error) {
		e, err := d.findSession(p.Session)
		if err == nil {
			err = d.checkWriteAccess(e, c)
		}
		if err != nil {
			return emptyResult{}, err
		}
		d.log.Info("session closed", "session", e.name, "by", d.clientLabel(r.Conn))
		return emptyResult{}, d.removeSession(ctx, e)
	})
}

func (d *Daemon) handleStart(ctx context.Context, r *rpcserver.Request, p protocol.StartParams) (session.Reply, error) {
	d.noteUse()
	o, err := waitOptions(p.WaitMS, p.After)
	if err == nil {
		err = checkAuthor(p.Author)
	}
	if err == nil && p.Silent && p.MayExit {
		err = rpcserver.InvalidParams("use either silent or may_exit, not both")
	}
	if err == nil && p.TraceParent != "" && !session.IsTraceParent(p.TraceParent) {
		err = rpcserver.InvalidParams("traceparent must have the form of the W3C: 00-TRACE-SPAN-FLAGS, in lower case")
	}
	if err == nil && p.WriteLock && p.Author == "" {
		err = rpcserver.InvalidParams("author is required with write_lock: other clients see who has it")
	}
	if err != nil {
		return session.Reply{}, err
	}
	c := d.clientOf(r.Conn)
	if e, err := d.findSession(p.Session); err == nil {
		d.setAuthor(r.Conn, p.Author)
		defer d.trackCall(r.Conn, e)()
		if err := d.saveReadCursor(e, c, p.Author, p.ReadCursor); err != nil {
			return session.Reply{}, err
		}
	}
	t := retryableCall{p.Request, p.Session, []byte(fmt.Sprint(p.Author, "\n", p.Silent, p.MayExit, p.WriteLock, p.Queue, p.Dialect, "\n", p.Input))}
	started, forget, err := startOnce(ctx, d, r, t, func(ctx context.Context) (turnHandle, error) { return d.startTurn(ctx, c, p) })
	defer forget()
	if err != nil {
		return session.Reply{}, err
	}
	return d.waitForTurn(ctx, r, started, p.Request, p.Continues, o)
}

// startTurn submits the input of a call, and returns the turn that it started.
func (d *Daemon) startTurn(ctx context.Context, c *clientState, p protocol.StartParams) (turnHandle, error) {
	e, err := d.useSession(p.Session)
	if err == nil {
		err = d.checkAdmission()
	}
	if err != nil {
		return turnHandle{}, err
	}
	if p.Queue {
		turn, err := d.startQueued(ctx, e, c, p)
		if err := d.sessionError(e, err); err != nil {
			return turnHandle{}, err
		}
		return newTurnHandle(e, turn), nil
	}
	s := e.session.As(p.Author).InDialect(p.Dialect)
	ctx = session.WithTraceParent(ctx, p.TraceParent)
	submit := s.Submit
	switch {
	case p.Silent:
		submit = s.SubmitSilent
	case p.MayExit:
		submit = s.SubmitMayExit
	}
	turn, err := d.startWithLock(ctx, e, c, p.WriteLock, p.Author, func() (uint64, error) { return submit(ctx, p.Input) })
	if err := d.sessionError(e, err); err != nil {
		return turnHandle{}, err
	}
	return newTurnHandle(e, turn), nil
}

func (d *Daemon) handleInput(ctx context.Context, r *rpcserver.Request, p protocol.InputParams) (session.Reply, error) {
	d.noteUse()
	o, err := waitOptions(p.WaitMS, p.After)
	if err == nil {
		err = checkAuthor(p.Author)
	}
	if err == nil && p.InputRequest == 0 {
		err = rpcserver.InvalidParams("input_request is required: the ID of the input request to answer")
	}
	if err != nil {
		return session.Reply{}, err
	}
	c := d.clientOf(r.Conn)
	if e, err := d.findSession(p.Session); err == nil {
		d.setAuthor(r.Conn, p.Author)
		defer d.trackCall(r.Conn, e)()
		if err := d.saveReadCursor(e, c, p.Author, p.ReadCursor); err != nil {
			return session.Reply{}, err
		}
		if p.WaitMS == 0 && p.After == 0 {
			o.After = e.session.Log().LastSeq()
		}
	}
	t := retryableCall{p.Request, p.Session, []byte(fmt.Sprint(p.Author, "\n", p.InputRequest, p.EOF, p.Input))}
	started, forget, err := startOnce(ctx, d, r, t, func(ctx context.Context) (turnHandle, error) {
		e, err := d.awaitSession(ctx, p.Session)
		if err == nil {
			err = d.checkAnswerAccess(ctx, e, c)
		}
		if err != nil {
			return turnHandle{}, err
		}
		turn, err := e.session.As(p.Author).Answer(ctx, p.InputRequest, session.Input{Data: []byte(p.Input), EOF: p.EOF})
		if err != nil {
			return turnHandle{}, err
		}
		return newTurnHandle(e, turn), nil
	})
	defer forget()
	if err != nil {
		return session.Reply{}, err
	}
	return d.waitForTurn(ctx, r, started, p.Request, p.Continues, o)
}

// saveReadCursor stores how far the author of a call had read before it; 0 stores nothing.
func (d *Daemon) saveReadCursor(e *openSession, c *clientState, author string, read timeline.Seq) error {
	switch last := e.session.Log().LastSeq(); {
	case read == 0:
		return nil
	case author == "":
		return rpcserver.InvalidParams("read_cursor needs author, the name of the reader")
	case read > last:
		return rpcserver.InvalidParams("read_cursor is %d, and the last event is %d", read, last)
	}
	if err := e.checkReaderLimit(author, c); err != nil {
		return err
	}
	e.claimReader(author, c)
	e.saveReadCursor(author, read)
	return nil
}

// waitForTurn waits for a turn that a call has started or answered. If the client cancels the call,
// waitForTurn interrupts the turn, unless the client wants it to continue. A turn whose client only
// disconnects continues as well.
func (d *Daemon) waitForTurn(ctx context.Context, r *rpcserver.Request, h turnHandle, request string, continues bool, o *session.WaitOptions) (session.Reply, error) {
	e, err := d.sessionOfTurn(h)
	if err != nil {
		return session.Reply{}, err
	}
	if request != "" && !o.Poll {
		_ = r.Conn.Notify(protocol.MethodTurnAccepted, protocol.TurnAccepted{Request: request, Session: e.name, Turn: h.turn})
	}
	reply, err := e.session.Wait(ctx, h.turn, o)
	if r.Commit() && !continues {
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), interruptTimeout)
		defer stop()
		if _, err := e.session.Interrupt(bounded, h.turn); err != nil {
			return session.Reply{}, err
		}
	}
	if err != nil {
		return session.Reply{}, err
	}
	return trimReply(reply), nil
}

func (d *Daemon) handleWait(ctx context.Context, r *rpcserver.Request, p protocol.WaitParams) (session.Reply, error) {
	d.noteUse()
	o, err := waitOptions(p.WaitMS, p.After)
	if err != nil {
		return session.Reply{}, err
	}
	e, err := d.useSession(p.Session)
	if err != nil {
		return session.Reply{}, err
	}
	defer d.trackCall(r.Conn, e)()
	if last := e.session.Log().LastSeq(); p.After > last {
		return session.Reply{}, rpcserver.InvalidParams("after is %d, and the last event is %d", p.After, last)
	}
	reply, err := e.session.Wait(ctx, p.Turn, o)
	if err == nil && reply.State == session.StateEnded {
		err = d.awaitPrepared(ctx, e)
	}
	if err != nil {
		return session.Reply{}, err
	}
	return trimReply(reply), nil
}

// handleReadCursor stores how far a reader has read. It does not count as use, because the call
// that read the events already did.
func (d *Daemon) handleReadCursor(ctx context.Context, r *rpcserver.Request, p protocol.ReadCursorParams) (protocol.ReadCursor, error) {
	if p.Reader == "" || len(p.Reader) > 256 {
		return protocol.ReadCursor{}, rpcserver.InvalidParams("reader is required, and at most 256 bytes long")
	}
	e, err := d.awaitSession(ctx, p.Session)
	if err != nil {
		return protocol.ReadCursor{}, err
	}
	if last := e.session.Log().LastSeq(); p.Seq > last {
		return protocol.ReadCursor{}, rpcserver.InvalidParams("seq is %d, and the last event is %d", p.Seq, last)
	}
	c := d.clientOf(r.Conn)
	if p.Own || p.Seq > 0 {
		if err := e.checkReaderLimit(p.Reader, c); err != nil {
			return protocol.ReadCursor{}, err
		}
	}
	if p.Own {
		if p.Reader, err = e.reserveReader(ctx, p.Reader, c); err != nil {
			return protocol.ReadCursor{}, err
		}
	} else if p.Seq > 0 { // storing a cursor claims the name; asking for one does not
		e.claimReader(p.Reader, c)
	}
	return protocol.ReadCursor{Seq: e.saveReadCursor(p.Reader, p.Seq), Reader: p.Reader}, nil
}

// waitOptions returns the options of a wait of ms milliseconds, or an error if ms is out of range.
func waitOptions(ms int64, after timeline.Seq) (*session.WaitOptions, error) {
	wait := time.Duration(ms) * time.Millisecond
	if ms < 0 || wait > maxWaitTime {
		return nil, rpcserver.InvalidParams("wait_ms is %d: use 0 to %d", ms, maxWaitTime.Milliseconds())
	}
	return &session.WaitOptions{Timeout: wait, Poll: ms == 0, After: after}, nil
}

func (d *Daemon) handleInterrupt(ctx context.Context, r *rpcserver.Request, p protocol.InterruptParams) (protocol.InterruptReply, error) {
	d.noteUse()
	if p.Active == (p.Turn != 0) {
		return protocol.InterruptReply{}, rpcserver.InvalidParams("give turn, so that a late interrupt cannot reach the next turn, or active: true to interrupt the current turn")
	}
	if err := checkAuthor(p.Author); err != nil {
		return protocol.InterruptReply{}, err
	}
	t := retryableCall{p.Request, p.Session, []byte(fmt.Sprint(p.Author, "\n", p.Turn))}
	return runOnce(ctx, d, r, t, func(ctx context.Context) (protocol.InterruptReply, error) {
		e, err := d.findSession(p.Session)
		if err != nil {
			return protocol.InterruptReply{}, err
		}
		result, err := e.session.As(p.Author).Interrupt(ctx, p.Turn)
		return protocol.InterruptReply{Result: result}, err
	})
}

// handleGrant grants access to a session. It needs no write lock, because grants come from the
// user, and all connections belong to the user.
func (d *Daemon) handleGrant(ctx context.Context, r *rpcserver.Request, p protocol.GrantParams) (emptyResult, error) {
	s, err := d.sessionForUser(ctx, r, p.Session, p.Author)
	if err != nil {
		return emptyResult{}, err
	}
	d.log.Info("access granted", "session", p.Session, "by", d.clientLabel(r.Conn), "always", p.Always)
	return emptyResult{}, s.Allow(ctx, p.Grant)
}

func (d *Daemon) handleAnswerPermission(ctx context.Context, r *rpcserver.Request, p protocol.AnswerPermissionParams) (emptyResult, error) {
	if p.Permission == 0 {
		return emptyResult{}, rpcserver.InvalidParams("permission is required: the number of the permission request to answer")
	}
	s, err := d.sessionForUser(ctx, r, p.Session, p.Author)
	if err != nil {
		return emptyResult{}, err
	}
	d.log.Info("permission answered", "session", p.Session, "by", d.clientLabel(r.Conn), "ok", p.OK)
	return emptyResult{}, s.AnswerPermission(ctx, p.Permission, p.OK)
}

// sessionForUser returns a session on which a user decides about access.
func (d *Daemon) sessionForUser(ctx context.Context, r *rpcserver.Request, name, author string) (session.Session, error) {
	d.noteUse()
	e, err := d.awaitSession(ctx, name)
	if err == nil {
		err = checkAuthor(author)
	}
	if err != nil {
		return nil, err
	}
	d.setAuthor(r.Conn, author)
	return e.session.As(author), nil
}

func (d *Daemon) handleComplete(ctx context.Context, _ *rpcserver.Request, p protocol.QueryParams) (session.Completion, error) {
	e, err := d.awaitSession(ctx, p.Session)
	if err != nil {
		return session.Completion{}, err
	}
	c, err := e.session.Complete(ctx, p.Text, p.Cursor)
	if c.Matches == nil {
		c.Matches = []string{}
	}
	return c, err
}

func (d *Daemon) handleInspect(ctx context.Context, _ *rpcserver.Request, p protocol.QueryParams) (session.Inspection, error) {
	e, err := d.awaitSession(ctx, p.Session)
	if err != nil {
		return session.Inspection{}, err
	}
	return e.session.Inspect(ctx, p.Text, p.Cursor)
}

func (d *Daemon) handleTablePage(ctx context.Context, _ *rpcserver.Request, p protocol.TablePageParams) (session.TablePage, error) {
	e, err := d.awaitSession(ctx, p.Session)
	if err != nil {
		return session.TablePage{}, err
	}
	return e.session.TablePage(ctx, p.TableQuery)
}

func (d *Daemon) handleParse(ctx context.Context, _ *rpcserver.Request, p protocol.ParseParams) (protocol.ParseReply, error) {
	e, err := d.awaitSession(ctx, p.Session)
	if err != nil {
		return protocol.ParseReply{}, err
	}
	status, err := e.session.InDialect(p.Dialect).Parse(ctx, p.Text)
	return protocol.ParseReply{Status: status}, err
}

func (d *Daemon) handleVariables(ctx context.Context, _ *rpcserver.Request, p protocol.NameParams) (session.Variables, error) {
	e, err := d.awaitSession(ctx, p.Session)
	if err != nil {
		return session.Variables{}, err
	}
	v, err := e.session.Variables(ctx)
	if v.List == nil {
		v.List = []session.Variable{}
	}
	return v, err
}

func (d *Daemon) handleOutput(ctx context.Context, _ *rpcserver.Request, p protocol.OutputParams) (session.Output, error) {
	e, err := d.awaitSession(ctx, p.Session)
	if err != nil {
		return session.Output{}, err
	}
	return e.session.Output(ctx, p.OutputQuery)
}

func (d *Daemon) handleDestinations(ctx context.Context, _ *rpcserver.Request, p protocol.NameParams) (protocol.Destinations, error) {
	e, err := d.findSession(p.Session)
	if err != nil {
		return protocol.Destinations{}, err
	}
	destinations, err := e.session.Destinations(ctx)
	return protocol.Destinations{Destinations: destinations}, err
}

func (d *Daemon) handleVisibleHome(ctx context.Context, _ *rpcserver.Request, p protocol.NameParams) (session.Visibility, error) {
	e, err := d.findSession(p.Session)
	if err != nil {
		return session.Visibility{}, err
	}
	return e.session.Visibility(ctx)
}

func (d *Daemon) handleComms(ctx context.Context, _ *rpcserver.Request, p protocol.CommsParams) (session.CommChanges, error) {
	e, err := d.findSession(p.Session)
	if err != nil {
		return session.CommChanges{}, err
	}
	return e.session.Comms(ctx, p.CommsQuery)
}
