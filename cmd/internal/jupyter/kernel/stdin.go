package kernel

import (
	"encoding/json"
	"sync"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/zsock"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// endOfInput is the line with which front ends say that there is no more, as in IPython.
const endOfInput = "\x04"

// inputs asks the peers on the stdin channel.
type inputs struct {
	k *kernel

	mu    sync.Mutex
	peers map[string]*zsock.Conn // by identity
	open  *question              // nil when nothing is asked
}

// A question is an input request without a reply. No message withdraws one: the reply to another
// is dropped.
type question struct {
	id   string // of the message
	life *life
	wait timeline.Seq
}

func (s *inputs) init(k *kernel) { s.k, s.peers = k, make(map[string]*zsock.Conn) }

// serve takes the replies of a peer.
func (s *inputs) serve(conn *zsock.Conn) {
	s.mu.Lock()
	s.peers[conn.Identity()] = conn
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.peers[conn.Identity()] == conn {
			delete(s.peers, conn.Identity())
		}
	}()
	s.k.serve(conn, s.replied)
}

// ask sends the question of a turn to whoever sent its request. It is false when that peer has no
// stdin channel.
func (s *inputs) ask(j *job, l *life, t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn := s.peers[j.conn.Identity()]
	if conn == nil {
		return false
	}
	content, _ := json.Marshal(map[string]any{"prompt": t.wait.Prompt, "password": t.wait.Kind == timeline.InputKindSecret})
	m := wire.Message{
		Identities: j.Identities, Parent: j.Header, Content: content,
		Header: wire.NewHeader(s.k.id, j.Header.Username, "input_request"),
	}
	frames, err := s.k.codec.Encode(&m)
	if err != nil || conn.Post(frames...) != nil {
		return false
	}
	s.open = &question{id: m.Header.ID, life: l, wait: t.waitID}
	return true
}

// forget drops the question, which somebody else has answered, or which is over.
func (s *inputs) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = nil
}

// replied hands a line on to the turn that asked for it.
func (s *inputs) replied(r *request) error {
	var content struct {
		Value string `json:"value"`
	}
	if r.Header.Type != "input_reply" || json.Unmarshal(r.Content, &content) != nil {
		return nil
	}
	s.mu.Lock()
	q := s.open
	if q == nil || r.Parent.ID != q.id && r.Parent.ID != "" {
		s.mu.Unlock()
		return nil // A late one.
	}
	s.open = nil
	s.mu.Unlock()
	in := session.Input{Data: []byte(content.Value + "\n")}
	if content.Value == endOfInput {
		in = session.Input{EOF: true}
	}
	if _, err := q.life.s.Answer(s.k.ctx, q.wait, in); err != nil && session.KindOf(err) != session.KindStale {
		s.k.note("an answer was not taken: %v", err)
	}
	return nil
}
