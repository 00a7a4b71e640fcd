package ipc

import "fmt"

// messageTypes maps the name of every protocol message to its type.
var messageTypes = map[string]messageType{
	"turn_start": newMessageType[TurnStart](FromSupervisor),
	"turn_input": markConfidential(newMessageType[TurnInput](FromSupervisor)),
	"interrupt":  newMessageType[Interrupt](FromSupervisor),
	"query":      newMessageType[Query](FromSupervisor),
	"shutdown":   newMessageType[Shutdown](FromSupervisor),

	"functions":   newMessageType[Functions](FromSupervisor),
	"call_result": newMessageType[CallResult](FromSupervisor),

	"worker_ready":  newMessageType[WorkerReady](FromWorker),
	"output":        newMessageType[Output](FromWorker),
	"image":         newMessageType[Image](FromWorker),
	"display":       newMessageType[Display](FromWorker),
	"clear":         newMessageType[Clear](FromWorker),
	"input_line":    markConfidential(newMessageType[InputLine](FromWorker)),
	"stdin_wait":    newMessageType[StdinWait](FromWorker),
	"idle":          newMessageType[Idle](FromWorker),
	"interrupt_ack": newMessageType[InterruptAck](FromWorker),
	"sigint":        newMessageType[Sigint](FromWorker),
	"progress":      newMessageType[Progress](FromWorker),
	"query_result":  newMessageType[QueryResult](FromWorker),
	"call":          newMessageType[Call](FromWorker),
	"call_cancel":   newMessageType[CallCancel](FromWorker),
	"session_end":   newMessageType[SessionEnd](FromWorker),
}

// A messageType tells the codec how to decode and encode one message.
type messageType struct {
	from         Side
	confidential bool // may contain a secret: no error quotes it
	read         func(*fieldVisitor) Message
	write        func(*fieldVisitor, Message)
}

func newMessageType[M Message, P interface {
	*M
	fieldLister
}](from Side) messageType {
	return messageType{
		from: from,
		read: func(w *fieldVisitor) Message {
			var m M
			w.mapState = mapState{depth: 1}
			w.readMap(&envelope{m.Type(), P(&m)})
			return m
		},
		write: func(w *fieldVisitor, message Message) {
			m, ok := message.(M)
			if !ok {
				w.recordError("", fmt.Errorf("got %T, want the message by value", message))
				return
			}
			w.mapState = mapState{depth: 1}
			w.writeMap(&envelope{m.Type(), P(&m)})
		},
	}
}

func markConfidential(t messageType) messageType {
	t.confidential = true
	return t
}

// An envelope adds the type to a message, as the first field.
type envelope struct {
	typeName string
	body     fieldLister
}

func (e *envelope) visitFields(w *fieldVisitor) {
	w.visitTag("type", e.typeName)
	e.body.visitFields(w)
}
