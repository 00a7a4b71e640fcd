package event

import (
	"time"
)

// An eventKind describes a kind of event: its number in the events file, its name in JSON, and its
// fields, in the order of the file and with their names in JSON. This is the only list of the
// fields of each kind.
type eventKind struct {
	number byte   // 0 for events that only readers make: they are not in the file
	name   string // the type in JSON
	// visit visits the fields of a body, which is nil when they are read, and returns the body
	// with these fields. It visits none of Text and Display, which codec and eventJSON encode
	// themselves.
	visit func(Body, fieldVisitor) Body
}

// A fieldVisitor writes or reads the fields of a body: codec by their order, and jsonFields by their
// names in JSON.
type fieldVisitor interface {
	visitText(name string, v *string)
	visitBytes(name string, v *[]byte) // of UTF-8
	visitBool(name string, v *bool)
	visitInt(name string, v *int)
	visitInt64(name string, v *int64)
	visitUint(name string, v *uint64)
	visitFloat(name string, v *float64)
	visitDuration(name string, v *time.Duration) // milliseconds in JSON
}

// newKind returns the kind of events with bodies of type T.
func newKind[T Body](number byte, name string, visit func(*T, fieldVisitor)) *eventKind {
	return &eventKind{number, name, func(body Body, v fieldVisitor) Body {
		b, _ := body.(T)
		visit(&b, v)
		return b
	}}
}

// The kinds of events, each with the fields of its body.
var (
	kindText    = newKind(1, "text", func(*Text, fieldVisitor) {})
	kindDisplay = newKind(17, "display", func(*Display, fieldVisitor) {})

	kindOutputCleared = newKind(18, "output_cleared", func(b *OutputCleared, v fieldVisitor) {
		v.visitBool("wait", &b.Wait)
	})
	kindFullScreenChanged = newKind(19, "full_screen_changed", func(b *FullScreenChanged, v fieldVisitor) {
		v.visitBool("on", &b.On)
	})

	kindTurnStarted = newKind(2, "turn_started", func(b *TurnStarted, v fieldVisitor) {
		v.visitBytes("input", &b.Input)
		v.visitInt("bytes", &b.InputBytes)
		v.visitText("author", &b.Author)
		v.visitText("traceparent", &b.TraceParent)
	})
	kindTurnEnded = newKind(3, "turn_ended", func(b *TurnEnded, v fieldVisitor) {
		v.visitText("outcome", (*string)(&b.Outcome))
		v.visitText("name", &b.Name)
		v.visitText("message", &b.Message)
		v.visitText("prompt", &b.Prompt)
		v.visitDuration("elapsed_ms", &b.Elapsed)
		v.visitInt("exit_code", &b.Code)
		v.visitText("signal", &b.Signal)
	})
	kindInputRequested = newKind(4, "input_requested", func(b *InputRequested, v fieldVisitor) {
		v.visitText("prompt", &b.Prompt)
		v.visitText("kind", (*string)(&b.Kind))
		v.visitBool("terminal", &b.Terminal)
		v.visitText("reader", &b.Reader)
		v.visitUint("permission_id", &b.PermissionID)
		visitDenied(&b.Denied, v)
		v.visitBool("raw", &b.Raw)
		v.visitBool("polls", &b.Polls)
	})
	kindInputRequestEnded = newKind(5, "input_request_ended", func(b *InputRequestEnded, v fieldVisitor) {
		v.visitUint("input_request", (*uint64)(&b.Request))
	})
	kindInputLine = newKind(6, "input_line", func(b *InputLine, v fieldVisitor) {
		v.visitText("prompt", &b.Prompt)
		v.visitText("text", &b.Text)
		v.visitBool("secret", &b.Secret)
		v.visitText("author", &b.Author)
		v.visitBool("keys", &b.Keys)
	})
	kindInterrupt = newKind(7, "interrupt", func(b *Interrupt, v fieldVisitor) {
		v.visitInt("level", &b.Level)
		v.visitText("author", &b.Author)
	})

	kindProgress = newKind(8, "progress", func(b *Progress, v fieldVisitor) {
		v.visitFloat("progress", &b.Progress)
		v.visitFloat("total", &b.Total)
		v.visitText("message", &b.Message)
	})
	kindPreparation = newKind(12, "preparation", func(b *Preparation, v fieldVisitor) {
		v.visitText("name", &b.Name)
		v.visitText("message", &b.Message)
		v.visitInt64("progress", &b.Done)
		v.visitInt64("total", &b.Total)
	})
	kindNotice = newKind(9, "notice", func(b *Notice, v fieldVisitor) {
		v.visitText("message", &b.Message)
	})
	kindLimit = newKind(15, "limit", func(b *Limit, v fieldVisitor) {
		v.visitText("kind", (*string)(&b.Kind))
		v.visitInt64("used", &b.Used)
		v.visitInt64("max", &b.Max)
		v.visitBool("all_sessions", &b.AllSessions)
		v.visitText("step", (*string)(&b.Step))
		v.visitText("program", &b.Program)
	})

	kindAccessDenied  = newKind(13, "access_denied", visitDenied)
	kindAccessGranted = newKind(14, "access_granted", func(b *AccessGranted, v fieldVisitor) {
		v.visitText("write", &b.Write)
		v.visitText("host", &b.Host)
		v.visitText("call", &b.Call)
		v.visitBool("always", &b.Always)
		v.visitText("author", &b.Author)
		v.visitText("read", &b.Read)
	})
	kindCall = newKind(16, "call", func(b *Call, v fieldVisitor) {
		v.visitText("name", &b.Name)
		v.visitInt("count", &b.Count)
		v.visitInt("failed", &b.Failed)
		v.visitInt("cancelled", &b.Cancelled)
		v.visitInt64("sent", &b.Sent)
		v.visitInt64("received", &b.Received)
		v.visitDuration("elapsed_ms", &b.Elapsed)
	})

	kindWorkerStarted = newKind(10, "worker_started", func(b *WorkerStarted, v fieldVisitor) {
		v.visitText("worker", &b.Worker)
	})
	kindWorkerExited = newKind(11, "worker_exited", func(b *WorkerExited, v fieldVisitor) {
		v.visitText("reason", &b.Reason)
		v.visitInt("exit_code", &b.ExitCode)
		v.visitText("signal", &b.Signal)
		v.visitText("message", &b.Message)
		v.visitBool("clean", &b.Clean)
		v.visitBool("never_ready", &b.NeverReady)
		v.visitText("last_line", &b.LastLine)
		v.visitInt64("peak_rss_bytes", &b.PeakRSSBytes)
	})

	kindGap = newKind(0, "gap", func(b *Gap, v fieldVisitor) { // events that were lost
		v.visitUint("from", (*uint64)(&b.From))
		v.visitUint("to", (*uint64)(&b.To))
		v.visitInt64("bytes", &b.Bytes)
	})
	kindOmitted = newKind(0, "omitted", func(b *Omitted, v fieldVisitor) { // events that were left out and can be requested
		v.visitUint("from", (*uint64)(&b.From))
		v.visitUint("to", (*uint64)(&b.To))
		v.visitInt64("bytes", &b.Bytes)
		v.visitInt("first_line", &b.FirstLine)
		v.visitInt("end_line", &b.LastLine)
	})
)

// eventKinds lists all kinds.
var eventKinds = [...]*eventKind{
	kindText, kindDisplay, kindOutputCleared, kindFullScreenChanged, kindTurnStarted, kindTurnEnded, kindInputRequested, kindInputRequestEnded, kindInputLine, kindInterrupt,
	kindProgress, kindPreparation, kindNotice, kindLimit, kindAccessDenied, kindAccessGranted, kindCall, kindWorkerStarted, kindWorkerExited, kindGap, kindOmitted,
}

// visitDenied visits the fields of a denied access, which are also part of an input request.
func visitDenied(d *AccessDenied, v fieldVisitor) {
	v.visitText("op", &d.Op)
	v.visitText("path", &d.Path)
	v.visitText("host", &d.Host)
	v.visitText("child_program", &d.ChildProgram)
	v.visitText("hint", &d.Hint)
	v.visitText("call", &d.Call)
	v.visitText("detail", &d.Detail)
	v.visitBool("destructive", &d.Destructive)
	v.visitText("author", &d.Author)
}

func (Text) kind() *eventKind              { return kindText }
func (Display) kind() *eventKind           { return kindDisplay }
func (OutputCleared) kind() *eventKind     { return kindOutputCleared }
func (FullScreenChanged) kind() *eventKind { return kindFullScreenChanged }
func (TurnStarted) kind() *eventKind       { return kindTurnStarted }
func (TurnEnded) kind() *eventKind         { return kindTurnEnded }
func (InputRequested) kind() *eventKind    { return kindInputRequested }
func (InputRequestEnded) kind() *eventKind { return kindInputRequestEnded }
func (InputLine) kind() *eventKind         { return kindInputLine }
func (Interrupt) kind() *eventKind         { return kindInterrupt }
func (Progress) kind() *eventKind          { return kindProgress }
func (Preparation) kind() *eventKind       { return kindPreparation }
func (Call) kind() *eventKind              { return kindCall }
func (Notice) kind() *eventKind            { return kindNotice }
func (Limit) kind() *eventKind             { return kindLimit }
func (AccessDenied) kind() *eventKind      { return kindAccessDenied }
func (AccessGranted) kind() *eventKind     { return kindAccessGranted }
func (WorkerStarted) kind() *eventKind     { return kindWorkerStarted }
func (WorkerExited) kind() *eventKind      { return kindWorkerExited }
func (Gap) kind() *eventKind               { return kindGap }
func (Omitted) kind() *eventKind           { return kindOmitted }

// IsStructural reports whether an event is kept when the output around it is left out.
func IsStructural(b Body) bool {
	switch b.(type) {
	case Text, Display:
		return false
	}
	return true
}

// PayloadBytes returns the total size of all fields of variable length.
func PayloadBytes(body Body) int64 {
	n := 0
	switch b := body.(type) {
	case Text:
		n = len(b.Data)
	case Display:
		n = int(b.TotalBytes()) + len(b.Meta) + len(b.ID) + len(b.Title)
		for mime := range b.Data {
			n += len(mime)
		}
	case TurnStarted:
		n = len(b.Input) + len(b.Author) + len(b.TraceParent)
	case TurnEnded:
		n = len(b.Outcome) + len(b.Name) + len(b.Message) + len(b.Prompt)
	case InputRequested:
		n = len(b.Prompt) + len(b.Kind) + len(b.Reader) + b.Denied.textBytes()
	case AccessDenied:
		n = b.textBytes()
	case AccessGranted:
		n = len(b.Read) + len(b.Write) + len(b.Host) + len(b.Call) + len(b.Author)
	case InputLine:
		n = len(b.Prompt) + len(b.Text) + len(b.Author)
	case Interrupt:
		n = len(b.Author)
	case Progress:
		n = len(b.Message)
	case Preparation:
		n = len(b.Name) + len(b.Message)
	case Call:
		n = len(b.Name)
	case Notice:
		n = len(b.Message)
	case Limit:
		n = len(b.Program)
	case WorkerStarted:
		n = len(b.Worker)
	case WorkerExited:
		n = len(b.Reason) + len(b.Message) + len(b.LastLine)
	}
	return int64(n)
}

func (d AccessDenied) textBytes() int {
	return len(d.Op) + len(d.Path) + len(d.Host) + len(d.ChildProgram) + len(d.Hint) + len(d.Call) + len(d.Detail) + len(d.Author)
}
