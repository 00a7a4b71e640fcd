package supervisor

import "sync"

// maxQueuedAnswers bounds the answers to queries that wait to be sent, in bytes. Programs that ask
// without reading get no more answers than that.
const maxQueuedAnswers = 4 << 10

// queryAnswers sends what the terminal answers to queries of programs, in order. The stream merger must
// not wait for that.
type queryAnswers struct {
	mu      sync.Mutex
	queue   []byte
	sending bool
	sent    int // bytes sent in this turn
}

// answerQuery queues one answer.
func (w *worker) answerQuery(b []byte) {
	a := &w.typing.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue)+len(b) > maxQueuedAnswers {
		return
	}
	a.queue = append(a.queue, b...)
	if !a.sending {
		a.sending = true
		w.s.wg.Go(w.sendAnswers)
	}
}

func (w *worker) sendAnswers() {
	a := &w.typing.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 {
		b := a.queue
		a.queue = nil
		a.mu.Unlock()
		n := w.proc.terminal.AnswerQuery(b)
		a.mu.Lock()
		a.sent += n
	}
	a.sending = false
}

// takeSent returns how many bytes were sent since its last call.
func (a *queryAnswers) takeSent() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.sent
	a.sent = 0
	return n
}
