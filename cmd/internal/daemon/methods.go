package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxWait bounds how long a call may wait for a turn.
	maxWait = 24 * time.Hour

	// interruptLimit is how long the interrupt of a cancelled call may take.
	interruptLimit = 2 * time.Second

	// maxDisplay bounds the types of a display in an answer, in bytes. The answer only names
	// larger ones.
	maxDisplay = 8 << 20
)

// method makes a handler from a function with typed params.
func method[P, R any](f func(ctx context.Context, r *rpc.Request, p P) (R, error)) rpc.Handler {
	return func(ctx context.Context, r *rpc.Request) (any, error) {
		var p P
		if err := r.Decode(&p); err != nil {
			return nil, err
		}
		result, err := f(ctx, r, p)
		if err != nil {
			return nil, failure(err)
		}
		return result, nil
	}
}

const (
	// A long call reports progress for the first time after firstBeat, and then every
	// beatPause.
	firstBeat = time.Second
	beatPause = 5 * time.Second
)

// long makes a call report its duration in seconds as progress, if its caller asked for
// progress.
func (d *Daemon) long(h rpc.Handler) rpc.Handler {
	return func(ctx context.Context, r *rpc.Request) (any, error) {
		if r.Token() != nil {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			d.wg.Go(func() { d.beat(ctx, r) })
		}
		return h(ctx, r)
	}
}

func (d *Daemon) beat(ctx context.Context, r *rpc.Request) {
	var p client.NameParams
	_ = json.Unmarshal(r.Params, &p) // the method itself will report the error
	begun := time.Now()
	timer := time.NewTimer(firstBeat)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(beatPause)
		}
		e, err := d.known(p.Session)
		if err != nil {
			return
		}
		state := d.describe(e).State
		elapsed := time.Since(begun)
		if r.Progress(elapsed.Seconds(), 0, fmt.Sprintf("%s, %.1f s", state, elapsed.Seconds())) != nil {
			return
		}
	}
}

// nothing is an empty result.
type nothing struct{}

func (d *Daemon) methods() map[string]rpc.Handler {
	return map[string]rpc.Handler{
		client.MethodInfo:      method(d.handleInfo),
		client.MethodPing:      method(d.handlePing),
		client.MethodCreate:    method(d.handleCreate),
		client.MethodList:      method(d.handleList),
		client.MethodGet:       method(d.handleGet),
		client.MethodResize:    method(d.handleResize),
		client.MethodReset:     d.long(method(d.handleReset)),
		client.MethodClose:     method(d.handleClose),
		client.MethodStart:     d.long(method(d.handleStart)),
		client.MethodInput:     d.long(method(d.handleInput)),
		client.MethodWait:      d.long(method(d.handleWait)),
		client.MethodInterrupt: method(d.handleInterrupt),
		client.MethodAllow:     method(d.handleAllow),
		client.MethodPermit:    method(d.handlePermit),
		client.MethodComplete:  method(d.handleComplete),
		client.MethodInspect:   method(d.handleInspect),
		client.MethodParse:     method(d.handleParse),
		client.MethodVariables: method(d.handleVariables),
		client.MethodReached:   method(d.handleReached),
		client.MethodShown:     method(d.handleShown),
		client.MethodRead:      method(d.handleRead),
		client.MethodOutline:   method(d.handleOutline),
		client.MethodSearch:    method(d.handleSearch),
		client.MethodBlob:      method(d.handleBlob),
		client.MethodFiles:     method(d.handleFiles),
		client.MethodFile:      method(d.handleFile),
		client.MethodLost:      method(d.handleLost),
		client.MethodOutput:    method(d.handleOutput),
		client.MethodMark:      method(d.handleMark),
		client.MethodClients:   method(d.handleClients),
		client.MethodDetach:    method(d.handleDetach),
	}
}

// handleInfo describes the daemon. Calling it does not count as use.
func (d *Daemon) handleInfo(context.Context, *rpc.Request, nothing) (client.Info, error) {
	return d.info(), nil
}

// handlePing answers, so that a client knows that the daemon can be reached. Calling it does not
// count as use.
func (d *Daemon) handlePing(context.Context, *rpc.Request, nothing) (nothing, error) {
	return nothing{}, nil
}

func (d *Daemon) handleCreate(ctx context.Context, r *rpc.Request, p client.CreateParams) (session.Info, error) {
	d.used()
	what, err := json.Marshal(p)
	if err != nil {
		return session.Info{}, err
	}
	made, err := once(ctx, d, r, task{p.Request, p.Name, what}, func(doing context.Context) (begunTurn, error) {
		e, err := d.create(doing, ctx, r, p)
		if err != nil {
			return begunTurn{}, err
		}
		return newBegunTurn(e, 0), nil
	})
	if err != nil {
		return session.Info{}, err
	}
	e, err := d.sessionOf(made)
	if err != nil {
		return session.Info{}, err
	}
	return d.describe(e), nil
}

// handleList lists the sessions. Calling it does not count as use.
func (d *Daemon) handleList(context.Context, *rpc.Request, nothing) (struct {
	Sessions []session.Info `json:"sessions"`
}, error) {
	var result struct {
		Sessions []session.Info `json:"sessions"`
	}
	result.Sessions = []session.Info{}
	for _, e := range d.all() {
		result.Sessions = append(result.Sessions, d.describe(e))
	}
	return result, nil
}

func (d *Daemon) handleGet(_ context.Context, _ *rpc.Request, p client.NameParams) (session.Info, error) {
	e, err := d.known(p.Session)
	if err != nil {
		return session.Info{}, err
	}
	return d.describe(e), nil
}

func (d *Daemon) handleReset(ctx context.Context, r *rpc.Request, p client.EndParams) (session.Info, error) {
	d.used()
	c := d.caller(r.Conn) // the connection may be another one when it is carried out
	return once(ctx, d, r, task{p.Request, p.Session, nil}, func(ctx context.Context) (session.Info, error) {
		e, err := d.inUse(p.Session)
		if err == nil {
			err = d.mayWrite(e, c)
		}
		if err == nil {
			d.log.Info("a session is reset", "session", e.name, "by", d.who(r.Conn))
			err = d.told(e, e.session.Reset(ctx))
		}
		if err != nil {
			return session.Info{}, err
		}
		return d.describe(e), nil
	})
}

func (d *Daemon) handleClose(ctx context.Context, r *rpc.Request, p client.EndParams) (nothing, error) {
	d.used()
	c := d.caller(r.Conn) // the connection may be another one when it is carried out
	return once(ctx, d, r, task{p.Request, p.Session, nil}, func(ctx context.Context) (nothing, error) {
		e, err := d.known(p.Session)
		if err == nil {
			err = d.mayWrite(e, c)
		}
		if err != nil {
			return nothing{}, err
		}
		d.log.Info("a session is closed", "session", e.name, "by", d.who(r.Conn))
		return nothing{}, d.remove(ctx, e)
	})
}

func checkAuthor(name string) error {
	if !client.IsAuthor(name) {
		return rpc.InvalidParams("author: use up to %d bytes of text, without control or invisible characters", client.MaxAuthorBytes)
	}
	return nil
}

func (d *Daemon) handleStart(ctx context.Context, r *rpc.Request, p client.StartParams) (session.Reply, error) {
	d.used()
	o, err := waitOptions(p.WaitMS, p.After)
	if err == nil {
		err = checkAuthor(p.Author)
	}
	if err == nil && p.Silent && p.MayExit {
		err = rpc.InvalidParams("use either silent or may_exit, not both")
	}
	if err == nil && p.Keyboard && p.Author == "" {
		err = rpc.InvalidParams("author is required with keyboard: others see who has it")
	}
	if err != nil {
		return session.Reply{}, err
	}
	c := d.caller(r.Conn)
	if e, err := d.known(p.Session); err == nil {
		d.named(r.Conn, p.Author)
		defer d.calling(r.Conn, e)()
		if err := d.markRead(e, c, p.Author, p.Read); err != nil {
			return session.Reply{}, err
		}
	}
	t := task{p.Request, p.Session, []byte(fmt.Sprint(p.Author, "\n", p.Silent, p.MayExit, p.Keyboard, p.Input))}
	begun, forget, err := begunOnce(ctx, d, r, t, func(ctx context.Context) (begunTurn, error) { return d.startTurn(ctx, c, p) })
	defer forget()
	if err != nil {
		return session.Reply{}, err
	}
	return d.follow(ctx, r, begun, p.Request, p.GoesOn, o)
}

// startTurn starts the turn of a call.
func (d *Daemon) startTurn(ctx context.Context, c *caller, p client.StartParams) (begunTurn, error) {
	e, err := d.inUse(p.Session)
	if err == nil {
		err = d.admits()
	}
	if err != nil {
		return begunTurn{}, err
	}
	on := e.session.As(p.Author)
	submit := on.Submit
	switch {
	case p.Silent:
		submit = on.SubmitSilent
	case p.MayExit:
		submit = on.SubmitMayExit
	}
	turn, err := d.begin(ctx, e, c, p.Keyboard, p.Author, func() (uint64, error) { return submit(ctx, p.Input) })
	if err := d.told(e, err); err != nil {
		return begunTurn{}, err
	}
	return newBegunTurn(e, turn), nil
}

func (d *Daemon) handleInput(ctx context.Context, r *rpc.Request, p client.InputParams) (session.Reply, error) {
	d.used()
	o, err := waitOptions(p.WaitMS, p.After)
	if err == nil {
		err = checkAuthor(p.Author)
	}
	if err == nil && p.Wait == 0 {
		err = rpc.InvalidParams("wait is required: the id of the wait that is answered")
	}
	if err != nil {
		return session.Reply{}, err
	}
	c := d.caller(r.Conn)
	if e, err := d.known(p.Session); err == nil {
		d.named(r.Conn, p.Author)
		defer d.calling(r.Conn, e)()
		if err := d.markRead(e, c, p.Author, p.Read); err != nil {
			return session.Reply{}, err
		}
		if p.WaitMS == 0 && p.After == 0 {
			o.After = e.session.Log().LastSeq()
		}
	}
	t := task{p.Request, p.Session, []byte(fmt.Sprint(p.Author, "\n", p.Wait, p.EOF, p.Input))}
	begun, forget, err := begunOnce(ctx, d, r, t, func(ctx context.Context) (begunTurn, error) {
		e, err := d.session(ctx, p.Session)
		if err == nil {
			err = d.mayAnswer(ctx, e, c)
		}
		if err != nil {
			return begunTurn{}, err
		}
		turn, err := e.session.As(p.Author).Answer(ctx, p.Wait, session.Input{Data: []byte(p.Input), EOF: p.EOF})
		if err != nil {
			return begunTurn{}, err
		}
		return newBegunTurn(e, turn), nil
	})
	defer forget()
	if err != nil {
		return session.Reply{}, err
	}
	return d.follow(ctx, r, begun, p.Request, p.GoesOn, o)
}

// markRead stores how far the author of a call had read before; 0 stores nothing.
func (d *Daemon) markRead(e *entry, c *caller, author string, read timeline.Seq) error {
	switch last := e.session.Log().LastSeq(); {
	case read == 0:
		return nil
	case author == "":
		return rpc.InvalidParams("author is required with read: it is the name of the reader")
	case read > last:
		return rpc.InvalidParams("read is %d, and the last event is %d", read, last)
	}
	if err := e.mayRead(author, c); err != nil {
		return err
	}
	e.holds(author, c)
	e.mark(author, read)
	return nil
}

// follow waits for a turn that a call has started or answered. If the client cancels the call,
// follow interrupts the turn, unless the client wants it to go on. If the client only
// disconnects, the turn goes on.
func (d *Daemon) follow(ctx context.Context, r *rpc.Request, begun begunTurn, request string, goesOn bool, o *session.WaitOptions) (session.Reply, error) {
	e, err := d.sessionOf(begun)
	if err != nil {
		return session.Reply{}, err
	}
	if request != "" && !o.Poll {
		_ = r.Conn.Notify(client.MethodBegun, client.Begun{Request: request, Session: e.name, Turn: begun.turn})
	}
	reply, err := e.session.Wait(ctx, begun.turn, o)
	if r.Commit() && !goesOn {
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), interruptLimit)
		defer stop()
		if _, err := e.session.Interrupt(bounded, begun.turn); err != nil {
			return session.Reply{}, err
		}
	}
	if err != nil {
		return session.Reply{}, err
	}
	return sendable(reply), nil
}

func (d *Daemon) handleWait(ctx context.Context, r *rpc.Request, p client.WaitParams) (session.Reply, error) {
	d.used()
	o, err := waitOptions(p.WaitMS, p.After)
	if err != nil {
		return session.Reply{}, err
	}
	e, err := d.inUse(p.Session)
	if err != nil {
		return session.Reply{}, err
	}
	defer d.calling(r.Conn, e)()
	if last := e.session.Log().LastSeq(); p.After > last {
		return session.Reply{}, rpc.InvalidParams("after is %d, and the last event is %d", p.After, last)
	}
	reply, err := e.session.Wait(ctx, p.Turn, o)
	if err == nil && reply.State == session.StateEnded {
		err = d.prepared(ctx, e)
	}
	if err != nil {
		return session.Reply{}, err
	}
	return sendable(reply), nil
}

// handleMark stores how far a reader has read. It does not count as use, because the reading
// did.
func (d *Daemon) handleMark(ctx context.Context, r *rpc.Request, p client.MarkParams) (client.Marked, error) {
	if p.Reader == "" || len(p.Reader) > 256 {
		return client.Marked{}, rpc.InvalidParams("reader is required, and at most 256 bytes long")
	}
	e, err := d.session(ctx, p.Session)
	if err != nil {
		return client.Marked{}, err
	}
	if last := e.session.Log().LastSeq(); p.Seq > last {
		return client.Marked{}, rpc.InvalidParams("seq is %d, and the last event is %d", p.Seq, last)
	}
	c := d.caller(r.Conn)
	if p.Own || p.Seq > 0 {
		if err := e.mayRead(p.Reader, c); err != nil {
			return client.Marked{}, err
		}
	}
	if p.Own {
		if p.Reader, err = e.ownReader(ctx, p.Reader, c); err != nil {
			return client.Marked{}, err
		}
	} else if p.Seq > 0 { // storing a mark shows a reader; asking for one does not
		e.holds(p.Reader, c)
	}
	return client.Marked{Seq: e.mark(p.Reader, p.Seq), Reader: p.Reader}, nil
}

func waitOptions(ms int64, after timeline.Seq) (*session.WaitOptions, error) {
	wait := time.Duration(ms) * time.Millisecond
	if ms < 0 || wait > maxWait {
		return nil, rpc.InvalidParams("wait_ms is %d: use 0 to %d", ms, maxWait.Milliseconds())
	}
	return &session.WaitOptions{Timeout: wait, Poll: ms == 0, After: after}, nil
}

func (d *Daemon) handleInterrupt(ctx context.Context, r *rpc.Request, p client.InterruptParams) (client.Interrupted, error) {
	d.used()
	if p.Active == (p.Turn != 0) {
		return client.Interrupted{}, rpc.InvalidParams("give turn, so that a late interrupt does not hit the next one, or active: true for whatever runs now")
	}
	if err := checkAuthor(p.Author); err != nil {
		return client.Interrupted{}, err
	}
	t := task{p.Request, p.Session, []byte(fmt.Sprint(p.Author, "\n", p.Turn))}
	return once(ctx, d, r, t, func(ctx context.Context) (client.Interrupted, error) {
		e, err := d.known(p.Session)
		if err != nil {
			return client.Interrupted{}, err
		}
		result, err := e.session.As(p.Author).Interrupt(ctx, p.Turn)
		return client.Interrupted{Result: result}, err
	})
}

// handleAllow gives a session a right. The keyboard does not matter here: the rights are
// those of the user, to whom all connections belong.
func (d *Daemon) handleAllow(ctx context.Context, r *rpc.Request, p client.AllowParams) (nothing, error) {
	s, err := d.forPerson(ctx, r, p.Session, p.Author)
	if err != nil {
		return nothing{}, err
	}
	d.log.Info("a right is given", "session", p.Session, "by", d.who(r.Conn), "always", p.Always)
	return nothing{}, s.Allow(ctx, p.Grant)
}

func (d *Daemon) handlePermit(ctx context.Context, r *rpc.Request, p client.PermitParams) (nothing, error) {
	if p.Permission == 0 {
		return nothing{}, rpc.InvalidParams("permission is required: the number of the one that is answered")
	}
	s, err := d.forPerson(ctx, r, p.Session, p.Author)
	if err != nil {
		return nothing{}, err
	}
	d.log.Info("a permission is answered", "session", p.Session, "by", d.who(r.Conn), "ok", p.OK)
	return nothing{}, s.AnswerPermission(ctx, p.Permission, p.OK)
}

// forPerson returns a session for what a person decides.
func (d *Daemon) forPerson(ctx context.Context, r *rpc.Request, name, author string) (session.Session, error) {
	d.used()
	e, err := d.session(ctx, name)
	if err == nil {
		err = checkAuthor(author)
	}
	if err != nil {
		return nil, err
	}
	d.named(r.Conn, author)
	return e.session.As(author), nil
}

func (d *Daemon) handleComplete(ctx context.Context, _ *rpc.Request, p client.QueryParams) (session.Completion, error) {
	e, err := d.session(ctx, p.Session)
	if err != nil {
		return session.Completion{}, err
	}
	c, err := e.session.Complete(ctx, p.Text, p.Cursor)
	if c.Matches == nil {
		c.Matches = []string{}
	}
	return c, err
}

func (d *Daemon) handleInspect(ctx context.Context, _ *rpc.Request, p client.QueryParams) (session.Inspection, error) {
	e, err := d.session(ctx, p.Session)
	if err != nil {
		return session.Inspection{}, err
	}
	return e.session.Inspect(ctx, p.Text, p.Cursor)
}

func (d *Daemon) handleParse(ctx context.Context, _ *rpc.Request, p client.QueryParams) (client.Parsed, error) {
	e, err := d.session(ctx, p.Session)
	if err != nil {
		return client.Parsed{}, err
	}
	status, err := e.session.Parse(ctx, p.Text)
	return client.Parsed{Status: status}, err
}

func (d *Daemon) handleVariables(ctx context.Context, _ *rpc.Request, p client.NameParams) (session.Variables, error) {
	e, err := d.session(ctx, p.Session)
	if err != nil {
		return session.Variables{}, err
	}
	v, err := e.session.Variables(ctx)
	if v.List == nil {
		v.List = []session.Variable{}
	}
	return v, err
}

func (d *Daemon) handleOutput(ctx context.Context, _ *rpc.Request, p client.OutputParams) (session.Output, error) {
	e, err := d.session(ctx, p.Session)
	if err != nil {
		return session.Output{}, err
	}
	return e.session.Output(ctx, p.OutputQuery)
}

// handleResize sets the size of a terminal. A viewer does so by coming, so it does not count as use.
func (d *Daemon) handleResize(ctx context.Context, _ *rpc.Request, p client.ResizeParams) (nothing, error) {
	if min(p.Rows, p.Cols) < 1 || max(p.Rows, p.Cols) > math.MaxUint16 {
		return nothing{}, rpc.InvalidParams("rows and cols must be from 1 to %d", math.MaxUint16)
	}
	e, err := d.known(p.Session)
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, e.session.Resize(ctx, session.Size{Rows: uint16(p.Rows), Cols: uint16(p.Cols)})
}

func (d *Daemon) handleReached(ctx context.Context, _ *rpc.Request, p client.NameParams) (client.ReachedPlaces, error) {
	e, err := d.known(p.Session)
	if err != nil {
		return client.ReachedPlaces{}, err
	}
	places, err := e.session.Destinations(ctx)
	return client.ReachedPlaces{Places: places}, err
}

func (d *Daemon) handleShown(ctx context.Context, _ *rpc.Request, p client.NameParams) (session.Visibility, error) {
	e, err := d.known(p.Session)
	if err != nil {
		return session.Visibility{}, err
	}
	return e.session.Visibility(ctx)
}

// sendable returns a reply whose events fit on one line.
func sendable(r session.Reply) session.Reply {
	r.Events = wireEvents(r.Events)
	return r
}

// wireEvents returns the events of a reply. It drops the oldest ones if they would not fit on
// one line.
func wireEvents(events []timeline.Event) []timeline.Event {
	wire := make([]timeline.Event, 0, len(events))
	raw := 0
	for _, e := range events {
		e = wireEvent(e)
		wire = append(wire, e)
		raw += rawSize(e)
	}
	if raw <= maxReply/mostEscaped {
		return wire
	}
	room := maxReply
	for i, e := range slices.Backward(wire) {
		b, err := json.Marshal(e)
		if shown, ok := e.Body.(timeline.Display); ok && err == nil && len(b) > room {
			wire[i].Body = shown.Truncated(0)
			b, err = json.Marshal(wire[i])
		}
		if room -= len(b); err != nil || room < 0 {
			left := timeline.Omitted{From: wire[0].Seq, To: e.Seq}
			for _, gone := range wire[:i+1] {
				left.Bytes += int64(dataSize(gone))
			}
			return append([]timeline.Event{{Seq: e.Seq, Turn: e.Turn, Body: left}}, wire[i+1:]...)
		}
	}
	return wire
}

const (
	// maxReply bounds the encoded events of an answer, so that the answer fits on one line.
	maxReply = 14 << 20

	// mostEscaped is how many times longer JSON can make a text.
	mostEscaped = 6
)

// dataSize returns how many bytes of text or of a display an event has.
func dataSize(e timeline.Event) int {
	switch b := e.Body.(type) {
	case timeline.Text:
		return len(b.Data)
	case timeline.Display:
		return int(b.TotalBytes())
	case timeline.InputLine:
		return len(b.Text)
	}
	return 0
}

// rawSize estimates the size of an event before it is encoded.
func rawSize(e timeline.Event) int {
	const rest = 200
	switch b := e.Body.(type) {
	case timeline.TurnStarted:
		return len(b.Input) + rest
	case timeline.Notice:
		return len(b.Message) + rest
	case timeline.TurnEnded:
		return len(b.Message) + len(b.Prompt) + rest
	case timeline.InputRequested:
		return len(b.Prompt) + len(b.Denied.Path) + len(b.Denied.Host) + rest
	case timeline.AccessDenied:
		return len(b.Path) + len(b.Host) + rest
	case timeline.AccessGranted:
		return len(b.Write) + len(b.Host) + rest
	}
	return dataSize(e)*4/3 + rest
}

// wireEvent returns an event to send. Types of a display that would not fit on one line are only
// named.
func wireEvent(e timeline.Event) timeline.Event {
	if shown, ok := e.Body.(timeline.Display); ok {
		e.Body = fitting(shown)
	}
	return e
}

// fitting leaves out the largest types of a display, until the rest fits on one line.
func fitting(d timeline.Display) timeline.Display {
	for most := int64(maxDisplay); ; most /= 2 {
		d = d.Truncated(most)
		if d.TotalBytes() <= maxDisplay/mostEscaped {
			return d
		}
		if b, err := json.Marshal(timeline.Event{Body: d}); err == nil && len(b) <= maxReply {
			return d
		}
	}
}
