package kernel

import (
	"encoding/json"
	"sync"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/zmtp"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// endOfInput is the line by which front ends signal the end of input, as in IPython.
const endOfInput = "\x04"

// A stdinChannel asks the peers on the stdin channel for input.
type stdinChannel struct {
	kernel *kernel

	mu    sync.Mutex
	peers map[string]*zmtp.Conn // by identity
	open  *stdinQuestion        // nil without an open question
}

// A stdinQuestion is an input request without a reply. No message can withdraw one: a reply to an
// earlier question is dropped.
type stdinQuestion struct {
	id        string // of the message
	session   *attachedSession
	requestID timeline.Seq
}

func (s *stdinChannel) initKernel(k *kernel) { s.kernel, s.peers = k, make(map[string]*zmtp.Conn) }

// servePeer handles the replies of a peer.
func (s *stdinChannel) servePeer(conn *zmtp.Conn) {
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
	s.kernel.servePeer(conn, s.handleReply)
}

// sendQuestion sends the question of a turn to the peer that sent its request. It returns false if that
// peer has no stdin channel.
func (s *stdinChannel) sendQuestion(j *queuedRequest, l *attachedSession, t *sessionTurn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn := s.peers[j.conn.Identity()]
	if conn == nil {
		return false
	}
	content, _ := json.Marshal(map[string]any{"prompt": t.inputRequest.Prompt, "password": t.inputRequest.Kind == timeline.InputKindSecret})
	m := wire.Message{
		Identities: j.Identities, Parent: j.Header, Content: content,
		Header: wire.NewHeader(s.kernel.id, j.Header.Username, "input_request"),
	}
	frames, err := s.kernel.codec.Encode(&m)
	if err != nil || conn.Enqueue(frames...) != nil {
		return false
	}
	s.open = &stdinQuestion{id: m.Header.ID, session: l, requestID: t.inputRequestID}
	return true
}

// dropQuestion drops the question, which is over or was answered by another client.
func (s *stdinChannel) dropQuestion() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = nil
}

// handleReply passes a line of input to the turn that asked for it.
func (s *stdinChannel) handleReply(r *peerRequest) error {
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
		return nil // too late
	}
	s.open = nil
	s.mu.Unlock()
	in := session.Input{Data: []byte(content.Value + "\n")}
	if content.Value == endOfInput {
		in = session.Input{EOF: true}
	}
	if _, err := q.session.session.Answer(s.kernel.ctx, q.requestID, in); err != nil && session.KindOf(err) != session.KindStale {
		s.kernel.printNotice("answer rejected: %v", err)
	}
	return nil
}
