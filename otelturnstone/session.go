package otelturnstone

import (
	"cmp"
	"context"
	"regexp"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// spanName is the same for all turns, because backends group spans by their name.
const spanName = "turnstone.turn"

// otherError is the value of error.type for an error without a usable name.
const otherError = "_OTHER"

// maxSpanEvents bounds the events of one span. The SDK drops further ones, too, but only after they
// were built.
const maxSpanEvents = 100

// Session returns a session that starts a span for each turn that is submitted through it. Turns of
// other callers have no span.
func Session(s session.Session, tracer trace.Tracer) session.Session {
	return &tracedSession{s, tracer}
}

// A tracedSession is a session whose turns have spans.
type tracedSession struct {
	session.Session
	tracer trace.Tracer
}

var (
	_ session.TurnStarter = (*tracedSession)(nil)
	_ session.TurnQueuer  = (*tracedSession)(nil)
)

// As implements session.Session.
func (t *tracedSession) As(author string) session.Session {
	return &tracedSession{t.Session.As(author), t.tracer}
}

// InDialect implements session.Session.
func (t *tracedSession) InDialect(dialect session.InputDialect) session.Session {
	return &tracedSession{t.Session.InDialect(dialect), t.tracer}
}

// Submit implements session.Session.
func (t *tracedSession) Submit(ctx context.Context, code string) (uint64, error) {
	return t.submit(ctx, code, t.Session.Submit)
}

// SubmitSilent implements session.Session.
func (t *tracedSession) SubmitSilent(ctx context.Context, code string) (uint64, error) {
	return t.submit(ctx, code, t.Session.SubmitSilent, attribute.Bool("turnstone.silent", true))
}

// SubmitMayExit implements session.Session.
func (t *tracedSession) SubmitMayExit(ctx context.Context, code string) (uint64, error) {
	return t.submit(ctx, code, t.Session.SubmitMayExit)
}

// SubmitQueued implements session.TurnQueuer. The span contains the wait in the queue. The error is of
// session.KindUnsupported if the traced session has no queue.
func (t *tracedSession) SubmitQueued(ctx context.Context, code string) (uint64, error) {
	q, ok := t.Session.(session.TurnQueuer)
	if !ok {
		return 0, session.Errorf(session.KindUnsupported, "session %q has no queue", t.Name())
	}
	return t.submit(ctx, code, q.SubmitQueued)
}

// submit starts a turn in a span.
func (t *tracedSession) submit(ctx context.Context, code string, start func(context.Context, string) (uint64, error), more ...attribute.KeyValue) (uint64, error) {
	ctx, span := t.startSpan(ctx, code, more...)
	turn, err := start(ctx, code)
	if err != nil {
		endRefused(span, err)
		return turn, err
	}
	t.followTurn(ctx, span, turn)
	return turn, nil
}

// startSpan starts the span of a turn, as a child of the span in ctx.
func (t *tracedSession) startSpan(ctx context.Context, code string, more ...attribute.KeyValue) (context.Context, trace.Span) {
	attributes := append(more, attribute.String("turnstone.session", t.Name()), attribute.Int("turnstone.input_bytes", len(code)))
	if author := t.Author(); author != "" {
		attributes = append(attributes, attribute.String("turnstone.author", author))
	}
	ctx, span := t.tracer.Start(ctx, spanName, trace.WithAttributes(attributes...))
	carrier := make(propagation.MapCarrier)
	propagation.TraceContext{}.Inject(ctx, carrier)
	return session.WithTraceParent(ctx, carrier.Get("traceparent")), span
}

// endRefused ends the span of a turn that was not started. It does not record the error's message,
// which may quote a prompt of the code.
func endRefused(span trace.Span, err error) {
	kind := cmp.Or(string(session.KindOf(err)), otherError)
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, "the turn was not started")
	span.End()
}

// followTurn starts the goroutine that ends the span with its turn.
func (t *tracedSession) followTurn(ctx context.Context, span trace.Span, turn uint64) {
	span.SetAttributes(attribute.Int64("turnstone.turn", int64(turn))) //nolint:gosec // turns are counted from 1
	f := &follower{span: span}
	go f.follow(context.WithoutCancel(ctx), t.Session, turn)
}

// A follower writes the events of a turn to its span.
type follower struct {
	span     trace.Span
	bytes    int64
	displays int
	events   int
}

// follow reads the events of a turn until it ends.
func (f *follower) follow(ctx context.Context, s session.Session, turn uint64) {
	defer f.span.End()
	for e, err := range session.TurnEvents(ctx, s, turn) {
		if err != nil {
			f.span.SetAttributes(attribute.String("error.type", cmp.Or(string(session.KindOf(err)), otherError)))
			f.span.SetStatus(codes.Error, "the end of the turn is unknown")
			break
		}
		f.addEvent(e)
	}
	f.span.SetAttributes(attribute.Int64("turnstone.output_bytes", f.bytes), attribute.Int("turnstone.displays", f.displays))
}

// addEvent records one event of the turn.
func (f *follower) addEvent(e timeline.Event) {
	switch b := e.Body.(type) {
	case timeline.Text:
		f.bytes += int64(len(b.Data))
	case timeline.Display:
		f.displays++
	case timeline.InputRequested:
		f.addSpanEvent(e, "input_requested", attribute.String("turnstone.input_kind", string(b.Kind)))
	case timeline.AccessDenied:
		f.addSpanEvent(e, "access_denied", attribute.String("turnstone.operation", b.Op))
	case timeline.Call:
		f.addSpanEvent(e, "call", attribute.Int("turnstone.calls", b.Count), attribute.Int("turnstone.failed_calls", b.Failed))
	case timeline.Gap:
		f.bytes += b.Bytes
		f.addSpanEvent(e, "gap", attribute.Int64("turnstone.lost_bytes", b.Bytes))
	case timeline.TurnEnded:
		f.span.SetAttributes(attribute.String("turnstone.outcome", string(b.Outcome)))
		if b.Outcome != timeline.OutcomeOK {
			f.span.SetAttributes(attribute.String("error.type", errorType(b)))
			f.span.SetStatus(codes.Error, string(b.Outcome))
		}
	}
}

// addSpanEvent adds an event to the span, up to maxSpanEvents.
func (f *follower) addSpanEvent(e timeline.Event, name string, attributes ...attribute.KeyValue) {
	if f.events++; f.events == maxSpanEvents {
		name, attributes = "further_events_left_out", nil
	}
	if f.events <= maxSpanEvents {
		f.span.AddEvent(name, trace.WithTimestamp(e.At), trace.WithAttributes(attributes...))
	}
}

// errorName matches the name of an error class. Code chooses the name, so another text could be
// output.
var errorName = regexp.MustCompile(`^[\pL_][\pL\pN_.]{0,99}$`)

// errorType returns error.type for a turn that did not end well.
func errorType(b timeline.TurnEnded) string {
	switch name := cmp.Or(b.Name, string(b.Outcome)); {
	case errorName.MatchString(name):
		return name
	default:
		return otherError
	}
}

// StartTurn implements session.TurnStarter. The span begins when Wait starts the turn.
func (t *tracedSession) StartTurn(code string, onStart func(turn uint64)) session.PendingTurn {
	p := &pendingTurn{session: t, code: code}
	p.PendingTurn = session.StartTurn(t.Session, code, func(turn uint64) {
		p.handOver(turn)
		if onStart != nil {
			onStart(turn)
		}
	})
	return p
}

// StartAnswer implements session.TurnStarter. An answer starts no turn, so it has no span.
func (t *tracedSession) StartAnswer(request timeline.Seq, in session.Input, onStart func(turn uint64)) session.PendingTurn {
	return session.StartAnswer(t.Session, request, in, onStart)
}

// A pendingTurn is a turn that Wait starts in a span. An attempt that fails has a span of its own.
type pendingTurn struct {
	session.PendingTurn
	session *tracedSession
	code    string

	mu      sync.Mutex
	started bool            // guarded by mu; the turn has a span
	span    trace.Span      // guarded by mu; of a start that is under way; nil otherwise
	ctx     context.Context // guarded by mu; of span
}

// Wait implements session.PendingTurn.
func (p *pendingTurn) Wait(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
	p.mu.Lock()
	if !p.started {
		ctx, p.span = p.session.startSpan(ctx, p.code)
		p.ctx = ctx
	}
	p.mu.Unlock()
	r, err := p.PendingTurn.Wait(ctx, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.span != nil { // the turn was not started, or that is unknown
		endRefused(p.span, err)
		p.span, p.ctx = nil, nil
	}
	return r, err
}

// handOver gives the span of a turn that has started to its follower.
func (p *pendingTurn) handOver(turn uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started = true; p.span == nil {
		return
	}
	p.session.followTurn(p.ctx, p.span, turn)
	p.span, p.ctx = nil, nil
}
