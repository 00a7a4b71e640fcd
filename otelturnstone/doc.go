// Package otelturnstone traces the turns of a session with OpenTelemetry. It wraps a
// session.Session, so the session itself knows nothing about tracing. It is a module of its own, so
// that only programs that trace depend on OpenTelemetry.
//
//	s = otelturnstone.Session(s, provider.Tracer("my-program"))
//
// # Spans
//
// Each turn that is submitted through the wrapper has one span, "turnstone.turn". Its parent is the
// span in the context of the call. It ends when the turn ends, also if the context ends earlier,
// because a context bounds the call and not the turn.
//
//	attribute               value
//	turnstone.session       the name of the session
//	turnstone.author        the author of the input; missing if there is none
//	turnstone.silent        true for SubmitSilent
//	turnstone.turn          the number of the turn
//	turnstone.input_bytes   the size of the code
//	turnstone.output_bytes  the size of the text that the turn has printed
//	turnstone.displays      the number of its displays
//	turnstone.outcome       ok, error, interrupted or ended
//	error.type              the name of the error, or the kind of a refusal
//
// Events of a span are input_requested, access_denied, call and gap. A span never has code, output,
// prompts, arguments or messages of errors, because these may contain secrets.
//
// The event timeline.TurnStarted has the traceparent of the span, also in a daemon, so that a reader
// of the session finds the trace of a turn.
//
// # Goroutines
//
// The goroutine follow reads the events of one turn. It ends with the turn, or when the session is
// closed or its connection has ended for good.
package otelturnstone
