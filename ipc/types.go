package ipc

import "fmt"

// messageTypes is every message of the protocol by its name on the wire.
var messageTypes = map[string]messageType{
	"turn_start": typeOf[TurnStart](FromSupervisor),
	"turn_input": confidential(typeOf[TurnInput](FromSupervisor)),
	"interrupt":  typeOf[Interrupt](FromSupervisor),
	"query":      typeOf[Query](FromSupervisor),
	"shutdown":   typeOf[Shutdown](FromSupervisor),

	"functions":   typeOf[Functions](FromSupervisor),
	"call_result": typeOf[CallResult](FromSupervisor),

	"worker_ready":  typeOf[WorkerReady](FromWorker),
	"output":        typeOf[Output](FromWorker),
	"image":         typeOf[Image](FromWorker),
	"display":       typeOf[Display](FromWorker),
	"clear":         typeOf[Clear](FromWorker),
	"input_line":    confidential(typeOf[InputLine](FromWorker)),
	"stdin_wait":    typeOf[StdinWait](FromWorker),
	"idle":          typeOf[Idle](FromWorker),
	"interrupt_ack": typeOf[InterruptAck](FromWorker),
	"sigint":        typeOf[Sigint](FromWorker),
	"progress":      typeOf[Progress](FromWorker),
	"query_result":  typeOf[QueryResult](FromWorker),
	"call":          typeOf[Call](FromWorker),
	"call_cancel":   typeOf[CallCancel](FromWorker),
	"session_end":   typeOf[SessionEnd](FromWorker),
}

// A messageType is what the codec knows about one message.
type messageType struct {
	from         Side
	confidential bool // may hold a secret: no error quotes it
	read         func(*walk) Message
	write        func(*walk, Message)
}

func typeOf[M Message, P interface {
	*M
	fielded
}](from Side) messageType {
	return messageType{
		from: from,
		read: func(w *walk) Message {
			var m M
			w.list = list{depth: 1}
			w.read(&envelope{m.Type(), P(&m)})
			return m
		},
		write: func(w *walk, message Message) {
			m, ok := message.(M)
			if !ok {
				w.check("", fmt.Errorf("it is given as %T, not by value", message))
				return
			}
			w.list = list{depth: 1}
			w.write(&envelope{m.Type(), P(&m)})
		},
	}
}

func confidential(t messageType) messageType {
	t.confidential = true
	return t
}

// An envelope is a message with its type as the first field.
type envelope struct {
	name string
	body fielded
}

func (e *envelope) fields(w *walk) {
	w.tag("type", e.name)
	e.body.fields(w)
}
