package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxWait bounds how long a call may wait for a turn.
	maxWait = 24 * time.Hour

	// interruptLimit is how long the interrupt of a cancelled call may take.
	interruptLimit = 2 * time.Second

	// maxImage bounds a picture in an answer, in bytes: what is larger is named only.
	maxImage = 8 << 20

	defaultMatches, maxMatches = 200, 5000
)

// method makes a handler of a function of typed params.
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
	// firstBeat is after how long a call tells that it is under way, and beatPause how
	// often it does so from then on.
	firstBeat = time.Second
	beatPause = 5 * time.Second
)

// long has a call that may take long tell how long it has taken, in seconds, if its
// caller wants to know.
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
	_ = json.Unmarshal(r.Params, &p) // the method says what is wrong with it
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

// errNotReady ends a wait for a session that is still being prepared.
var errNotReady = errors.New("the session is still being prepared")

// nothing is a result that says no more than that it was done.
type nothing struct{}

func (d *Daemon) methods() map[string]rpc.Handler {
	return map[string]rpc.Handler{
		client.MethodInfo:      method(d.handleInfo),
		client.MethodCreate:    method(d.handleCreate),
		client.MethodList:      method(d.handleList),
		client.MethodGet:       method(d.handleGet),
		client.MethodReset:     d.long(method(d.handleReset)),
		client.MethodClose:     method(d.handleClose),
		client.MethodStart:     d.long(method(d.handleStart)),
		client.MethodInput:     d.long(method(d.handleInput)),
		client.MethodWait:      d.long(method(d.handleWait)),
		client.MethodInterrupt: method(d.handleInterrupt),
		client.MethodComplete:  method(d.handleComplete),
		client.MethodParse:     method(d.handleParse),
		client.MethodVariables: method(d.handleVariables),
		client.MethodOutput:    method(d.handleOutput),
		client.MethodMark:      method(d.handleMark),
		client.MethodClients:   method(d.handleClients),
		client.MethodDetach:    method(d.handleDetach),
	}
}

// handleInfo is a probe: no activity.
func (d *Daemon) handleInfo(context.Context, *rpc.Request, nothing) (client.Info, error) {
	return d.info(), nil
}

func (d *Daemon) handleCreate(ctx context.Context, r *rpc.Request, p client.CreateParams) (client.Session, error) {
	d.used()
	e, err := d.create(ctx, r, p)
	if err != nil {
		return client.Session{}, err
	}
	return d.describe(e), nil
}

// handleList is a probe: no activity.
func (d *Daemon) handleList(context.Context, *rpc.Request, nothing) (struct {
	Sessions []client.Session `json:"sessions"`
}, error) {
	var result struct {
		Sessions []client.Session `json:"sessions"`
	}
	result.Sessions = []client.Session{}
	for _, e := range d.all() {
		result.Sessions = append(result.Sessions, d.describe(e))
	}
	return result, nil
}

func (d *Daemon) handleGet(_ context.Context, _ *rpc.Request, p client.NameParams) (client.Session, error) {
	e, err := d.known(p.Session)
	if err != nil {
		return client.Session{}, err
	}
	return d.describe(e), nil
}

func (d *Daemon) handleReset(ctx context.Context, r *rpc.Request, p client.NameParams) (client.Session, error) {
	d.used()
	e, err := d.session(ctx, p.Session)
	if err == nil {
		err = d.mayWrite(e, r.Conn)
	}
	if err == nil {
		d.log.Info("a session is reset", "session", e.name, "by", d.who(r.Conn))
		err = e.session.Reset(ctx)
	}
	if err != nil {
		return client.Session{}, err
	}
	return d.describe(e), nil
}

func (d *Daemon) handleClose(ctx context.Context, r *rpc.Request, p client.NameParams) (nothing, error) {
	d.used()
	e, err := d.known(p.Session)
	if err == nil {
		err = d.mayWrite(e, r.Conn)
	}
	if err != nil {
		return nothing{}, err
	}
	d.log.Info("a session is closed", "session", e.name, "by", d.who(r.Conn))
	if _, open := e.isOpen(); !open {
		return nothing{}, d.forsake(ctx, e)
	}
	return nothing{}, d.remove(ctx, e)
}

func checkAuthor(name string) error {
	if !client.IsAuthor(name) {
		return rpc.InvalidParams("author: use up to %d bytes of text without control characters and such as nobody sees", client.MaxAuthorBytes)
	}
	return nil
}

func (d *Daemon) handleStart(ctx context.Context, r *rpc.Request, p client.StartParams) (client.Reply, error) {
	d.used()
	e, err := d.session(ctx, p.Session)
	if err == nil {
		err = checkAuthor(p.Author)
	}
	if err == nil {
		err = d.admits()
	}
	if err != nil {
		return client.Reply{}, err
	}
	if p.WaitMS == 0 && p.After == 0 { // who wants to see nothing does not get all there ever was
		p.After = e.session.Log().Last()
	}
	d.named(r.Conn, p.Author)
	defer d.calling(r.Conn, e)()
	var turn *supervisor.Turn
	err = d.begin(ctx, e, r.Conn, func() (uint64, error) {
		turn, err = e.session.SubmitAs(ctx, p.Author, p.Input)
		if err != nil {
			return 0, err
		}
		return turn.ID(), nil
	})
	if err != nil {
		return client.Reply{}, err
	}
	return d.follow(ctx, r, e, turn, p.WaitMS, p.After)
}

func (d *Daemon) handleInput(ctx context.Context, r *rpc.Request, p client.InputParams) (client.Reply, error) {
	d.used()
	e, err := d.session(ctx, p.Session)
	if err == nil {
		err = checkAuthor(p.Author)
	}
	if err == nil {
		err = d.mayAnswer(ctx, e, r.Conn)
	}
	if err != nil {
		return client.Reply{}, err
	}
	d.named(r.Conn, p.Author)
	defer d.calling(r.Conn, e)()
	if p.Wait == 0 {
		return client.Reply{}, rpc.InvalidParams("wait is required: the id of the wait that is answered")
	}
	turn := e.session.Current()
	if turn == nil {
		return client.Reply{}, supervisor.ErrStale
	}
	if p.WaitMS == 0 && p.After == 0 {
		p.After = e.session.Log().Last()
	}
	if err := turn.Answer(ctx, p.Wait, supervisor.Input{Data: []byte(p.Input), EOF: p.EOF, Author: p.Author}); err != nil {
		return client.Reply{}, err
	}
	return d.follow(ctx, r, e, turn, p.WaitMS, p.After)
}

// follow waits for a turn that a call has started or fed. When the call is
// cancelled, the turn is interrupted; when its client only goes away, the turn
// goes on.
func (d *Daemon) follow(ctx context.Context, r *rpc.Request, e *entry, turn *supervisor.Turn, waitMS int64, after timeline.Seq) (client.Reply, error) {
	o, err := waitOptions(waitMS, after)
	if err != nil {
		return client.Reply{}, err
	}
	e.remember(turn)
	reply, err := turn.Wait(ctx, o)
	if r.Settle() {
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), interruptLimit)
		defer stop()
		if _, err := e.session.Interrupt(bounded, turn.ID()); err != nil {
			return client.Reply{}, err
		}
	}
	if err != nil {
		return client.Reply{}, err
	}
	return wireReply(reply), nil
}

func (d *Daemon) handleWait(ctx context.Context, r *rpc.Request, p client.WaitParams) (client.Reply, error) {
	d.used()
	o, err := waitOptions(p.WaitMS, p.After)
	if err != nil {
		return client.Reply{}, err
	}
	begun := time.Now()
	bounded, stop := context.WithTimeoutCause(ctx, o.Until, errNotReady)
	defer stop()
	e, err := d.session(bounded, p.Session)
	if errors.Is(context.Cause(bounded), errNotReady) && errors.Is(err, context.DeadlineExceeded) {
		return client.Reply{Session: p.Session, State: supervisor.StateStarting.String(), Events: []client.Event{}, Next: p.After}, nil
	}
	if err != nil {
		return client.Reply{}, err
	}
	defer d.calling(r.Conn, e)()
	if last := e.session.Log().Last(); p.After > last {
		return client.Reply{}, rpc.InvalidParams("after is %d, and the last event is %d", p.After, last)
	}
	if !o.Poll {
		o.Until = max(o.Until-time.Since(begun), time.Millisecond)
	}
	wait := e.session.Wait
	if p.Turn != 0 {
		turn := e.turn(p.Turn)
		if turn == nil {
			return client.Reply{}, rpc.Errorf(rpc.CodeFailed, client.KindStale, "turn %d is not among the last that were started here", p.Turn)
		}
		wait = turn.Wait
	}
	reply, err := wait(ctx, o)
	if err != nil {
		return client.Reply{}, err
	}
	return wireReply(reply), nil
}

// handleMark is no activity: reading goes with what is read.
func (d *Daemon) handleMark(ctx context.Context, r *rpc.Request, p client.MarkParams) (client.Marked, error) {
	if p.Reader == "" || len(p.Reader) > 256 {
		return client.Marked{}, rpc.InvalidParams("reader is required, and at most 256 bytes long")
	}
	e, err := d.session(ctx, p.Session)
	if err != nil {
		return client.Marked{}, err
	}
	if last := e.session.Log().Last(); p.Seq > last {
		return client.Marked{}, rpc.InvalidParams("seq is %d, and the last event is %d", p.Seq, last)
	}
	if p.Own {
		if p.Reader, err = e.ownReader(ctx, p.Reader, r.Conn); err != nil {
			return client.Marked{}, err
		}
	} else if p.Seq > 0 { // it reads; who only asks does not
		e.holds(p.Reader, r.Conn)
	}
	return client.Marked{Seq: e.mark(p.Reader, p.Seq), Reader: p.Reader}, nil
}

func waitOptions(ms int64, after timeline.Seq) (*supervisor.WaitOptions, error) {
	wait := time.Duration(ms) * time.Millisecond
	if ms < 0 || wait > maxWait {
		return nil, rpc.InvalidParams("wait_ms is %d: use 0 to %d", ms, maxWait.Milliseconds())
	}
	return &supervisor.WaitOptions{Until: wait, Poll: ms == 0, After: after}, nil
}

func (d *Daemon) handleInterrupt(ctx context.Context, _ *rpc.Request, p client.InterruptParams) (client.Interrupted, error) {
	d.used()
	if p.Turn == 0 {
		return client.Interrupted{}, rpc.InvalidParams("turn is required: a late interrupt must not hit the next turn")
	}
	if err := checkAuthor(p.Author); err != nil {
		return client.Interrupted{}, err
	}
	e, err := d.known(p.Session)
	if err != nil {
		return client.Interrupted{}, err
	}
	if _, open := e.isOpen(); !open { // it has had no turn yet
		return client.Interrupted{Result: string(supervisor.InterruptNotRunning)}, nil
	}
	result, err := e.session.InterruptAs(ctx, p.Author, p.Turn)
	return client.Interrupted{Result: string(result)}, err
}

func (d *Daemon) handleComplete(ctx context.Context, _ *rpc.Request, p client.QueryParams) (client.Completion, error) {
	e, err := d.session(ctx, p.Session)
	if err != nil {
		return client.Completion{}, err
	}
	c, err := e.session.Complete(ctx, p.Text, p.Cursor)
	if c.Matches == nil {
		c.Matches = []string{}
	}
	return client.Completion{Start: c.Start, Matches: c.Matches}, err
}

func (d *Daemon) handleParse(ctx context.Context, _ *rpc.Request, p client.QueryParams) (client.Parsed, error) {
	e, err := d.session(ctx, p.Session)
	if err != nil {
		return client.Parsed{}, err
	}
	status, err := e.session.Parse(ctx, p.Text)
	return client.Parsed{Status: string(status)}, err
}

func (d *Daemon) handleVariables(ctx context.Context, _ *rpc.Request, p client.NameParams) (client.Variables, error) {
	e, err := d.session(ctx, p.Session)
	if err != nil {
		return client.Variables{}, err
	}
	v, err := e.session.Variables(ctx)
	r := client.Variables{List: []client.Variable{}, More: v.More}
	for _, one := range v.List {
		r.List = append(r.List, client.Variable(one))
	}
	return r, err
}

func (d *Daemon) handleOutput(ctx context.Context, _ *rpc.Request, p client.OutputParams) (client.Output, error) {
	e, err := d.session(ctx, p.Session)
	if err != nil {
		return client.Output{}, err
	}
	log := e.session.Log()
	log.Sync()
	out := client.Output{Lines: []client.Line{}, Total: log.LineCount()}
	if p.Grep != "" {
		re, err := regexp.Compile(p.Grep)
		if err != nil {
			return out, rpc.InvalidParams("grep: %v", err)
		}
		if p.Max == 0 {
			p.Max = defaultMatches
		}
		if p.Max < 0 || p.Max > maxMatches {
			return out, rpc.InvalidParams("max is %d: use 1 to %d", p.Max, maxMatches)
		}
		lines, err := log.Grep(re, p.Max)
		for _, l := range lines {
			out.Lines = append(out.Lines, client.Line(l))
		}
		return out, noOutput(err)
	}
	if p.From < 1 || p.To < p.From {
		return out, rpc.InvalidParams("give grep, or from and to with 1 <= from <= to")
	}
	lines, err := log.Lines(p.From, p.To)
	for i, l := range lines {
		out.Lines = append(out.Lines, client.Line{Number: p.From + i, Text: l})
	}
	return out, noOutput(err)
}

func noOutput(err error) error {
	if errors.Is(err, timeline.ErrNoOutput) {
		return rpc.Errorf(rpc.CodeFailed, client.KindNoOutput, "%v", err)
	}
	return err
}

func wireReply(r supervisor.Reply) client.Reply {
	return client.Reply{
		Session: r.Session, Generation: r.Generation, Turn: r.Turn, State: r.State.String(), Outcome: r.Outcome,
		Wait: wireWait(r.Wait), Prompt: r.Prompt, ElapsedMS: r.Elapsed.Milliseconds(), OutputBytes: r.OutputBytes,
		Events: wireEvents(r.Events), Next: r.Next,
	}
}

// wireEvents is the events of a reply, of which the oldest give way when it would
// not fit a line.
func wireEvents(events []timeline.Event) []client.Event {
	wire := make([]client.Event, 0, len(events))
	raw := 0
	for _, e := range events {
		w := wireEvent(e)
		wire = append(wire, w)
		raw += rawSize(w)
	}
	if raw <= maxReply/mostEscaped {
		return wire
	}
	room := maxReply
	for i, w := range slices.Backward(wire) {
		b, err := json.Marshal(w)
		if err == nil && len(b) > room && w.Type == client.TypeImage {
			wire[i].Bytes, wire[i].Data, wire[i].Message = int64(len(w.Data)), nil, tooLargePicture
			b, err = json.Marshal(wire[i])
		}
		if room -= len(b); err != nil || room < 0 {
			left := client.Event{Seq: w.Seq, Turn: w.Turn, Type: client.TypeElided, From: wire[0].Seq, To: w.Seq}
			for _, gone := range wire[:i+1] {
				left.Bytes += int64(len(gone.Text) + len(gone.Data))
			}
			return append([]client.Event{left}, wire[i+1:]...)
		}
	}
	return wire
}

const (
	// maxReply bounds the events of an answer, encoded: with the rest it fits a line.
	maxReply = 14 << 20

	// mostEscaped is how much longer JSON makes text at most.
	mostEscaped = 6

	tooLargePicture = "the picture is too large to be sent"
)

// rawSize is about how large an event is before it is encoded.
func rawSize(e client.Event) int {
	return len(e.Text) + len(e.Input) + len(e.Data)*4/3 + len(e.Message) + len(e.Prompt) + 200
}

// wireEvent is an event for the wire, where a picture must fit a line.
func wireEvent(e timeline.Event) client.Event {
	w := client.FromTimeline(e)
	if w.Type == client.TypeImage && len(w.Data) > maxImage {
		w.Bytes, w.Data = int64(len(w.Data)), nil
		w.Message = tooLargePicture
	}
	return w
}
