package askpass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/openbrowser"
	"github.com/turnstone-repl/turnstone/internal/browserprompt"
	"github.com/turnstone-repl/turnstone/internal/environ"
)

// SocketVariable names the environment variable with the path of the server's socket. ssh starts this
// program with the variable set and with a question as its only argument, to ask the user.
const SocketVariable = "TURNSTONE_ASKPASS"

const (
	// questionTimeout bounds how long a question waits for the user.
	questionTimeout = 2 * time.Minute

	// declineCooldown is how long no question is asked after the user has declined or has not
	// answered. Without this pause, a retried connection would ask again and again.
	declineCooldown = 5 * time.Minute

	// maxQuestionBytes bounds the length of a question, and maxOpenQuestions the number of
	// questions that are open at the same time.
	maxQuestionBytes = 16 << 10
	maxOpenQuestions = 4
)

// Answers to a question about a host key.
const (
	hostKeyAccept = "Yes, this is its key: connect"
	hostKeyReject = "No"

	// closeLabel is the button below a notice, which needs no answer.
	closeLabel = "Close"
)

// An askpassRequest is a question that the process started by ssh sends to the server, which can
// reach the user.
type askpassRequest struct {
	Prompt string `json:"prompt"`
	Kind   string `json:"kind,omitempty"` // SSH_ASKPASS_PROMPT: "confirm", promptKindNone or nothing
}

// promptKindNone marks a notice that needs no answer, such as a request to touch a key. ssh
// withdraws it when the key was touched.
const promptKindNone = "none"

// An askpassResponse is the answer of the server to the process that ssh started. Without an
// answer, that process fails and ssh exits. An empty answer would not do: about a host key, ssh
// asks until it gets yes or no.
type askpassResponse struct {
	Answered bool   `json:"answered"`
	Text     string `json:"text,omitempty"`
}

// Run asks the user through the server at the socket at, and prints the answer for ssh. It waits
// for questionTimeout plus openPageTimeout at most. Without an answer, it prints an error and
// returns the status of a failure.
func Run(s cmdkit.Streams, at, prompt string) int {
	a, err := requestAnswer(at, askpassRequest{Prompt: prompt, Kind: os.Getenv("SSH_ASKPASS_PROMPT")})
	if err != nil {
		fmt.Fprintln(s.Err, "repl:", err)
		return cmdkit.StatusFailed
	}
	fmt.Fprintln(s.Out, a.Text)
	return cmdkit.StatusDone
}

func requestAnswer(at string, q askpassRequest) (a askpassResponse, err error) {
	conn, err := net.Dial("unix", at)
	if err != nil {
		return a, fmt.Errorf("cannot ask the user: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(questionTimeout + openPageTimeout)); err != nil {
		return a, err
	}
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return a, err
	}
	if err := json.NewDecoder(io.LimitReader(conn, 2*maxQuestionBytes)).Decode(&a); err != nil {
		return a, fmt.Errorf("no answer: %w", err)
	}
	if !a.Answered {
		return a, errors.New("the user did not answer, or declined")
	}
	return a, nil
}

// openPageTimeout bounds opening the page, in addition to questionTimeout.
const openPageTimeout = 15 * time.Second

// An askpassServer shows the questions of a remote's transport command to the user, each on a page
// in their browser. Neither the model nor its client sees them.
//
// It has a goroutine that accepts questions, and two for each question. They end with close.
type askpassServer struct {
	remote   string
	program  string // that asks the question
	dir      string // holds the socket
	listener net.Listener
	log      *slog.Logger
	open     func(ctx context.Context, address string) (remove func(), err error)
	pages    browserprompt.Pages
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu            sync.Mutex
	openQuestions int       // guarded by mu
	lastEnded     time.Time // guarded by mu: when the last question ended
	lastDeclined  time.Time // guarded by mu: when the user last declined or did not answer
}

// Start shows the questions of a transport command without a terminal to the user, if the
// user has a browser here. Otherwise no question is asked, and the command fails with its own
// message. The returned function closes the open pages, and waits for all goroutines.
func Start(transport *remote.CommandDialer, log *slog.Logger) (end func()) {
	transport.Env = append(environ.Without(os.Environ(), "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", SocketVariable), "SSH_ASKPASS_REQUIRE=never")
	if !browserprompt.HasBrowser(os.Getenv) {
		return func() {}
	}
	a, err := newAskpassServer(transport, log)
	if err != nil {
		log.Warn("cannot ask the user the questions of a transport command", "error", err)
		return func() {}
	}
	return a.close
}

// newAskpassServer starts to accept questions and configures the command to send them.
func newAskpassServer(transport *remote.CommandDialer, log *slog.Logger) (*askpassServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "repl-ask-")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	a := &askpassServer{remote: transport.DisplayName(), program: filepath.Base(transport.Prefix[0]), dir: dir, listener: listener, log: log, open: openbrowser.Open}
	a.ctx, a.stop = context.WithCancel(context.Background())
	a.running.Go(a.serve)
	transport.LastPrompt = a.lastAsked
	transport.Env = append(environ.Without(transport.Env, "SSH_ASKPASS_REQUIRE"), "SSH_ASKPASS="+self, "SSH_ASKPASS_REQUIRE=force", SocketVariable+"="+listener.Addr().String())
	if os.Getenv("DISPLAY") == "" { // OpenSSH before 8.4 asks only if this is set
		transport.Env = append(transport.Env, "DISPLAY=none:0")
	}
	return a, nil
}

// close ends all questions without an answer.
func (a *askpassServer) close() {
	a.stop()
	_ = a.listener.Close()
	a.running.Wait()
	a.pages.Close()
	_ = os.RemoveAll(a.dir)
}

// lastAsked returns when the last question ended, or the current time while one is open.
func (a *askpassServer) lastAsked() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.openQuestions > 0 {
		return time.Now()
	}
	return a.lastEnded
}

func (a *askpassServer) serve() {
	for {
		conn, err := a.listener.Accept()
		if err != nil {
			return
		}
		a.running.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(a.ctx, func() { _ = conn.Close() })()
			_ = conn.SetDeadline(time.Now().Add(questionTimeout + openPageTimeout))
			var q askpassRequest
			if json.NewDecoder(io.LimitReader(conn, maxQuestionBytes)).Decode(&q) != nil {
				return
			}
			_ = json.NewEncoder(conn).Encode(a.askUser(q, peerClosed(conn)))
		})
	}
}

// peerClosed returns a channel that is closed when the process that asks has exited; it sends
// nothing after its question.
func peerClosed(conn net.Conn) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
	return gone
}

// askUser shows a question to the user.
func (a *askpassServer) askUser(q askpassRequest, gone <-chan struct{}) askpassResponse {
	if !a.startQuestion() {
		return askpassResponse{}
	}
	got, err := a.askOnPage(q, gone)
	a.finishQuestion(got.Answered || err != nil || q.Kind == promptKindNone)
	if err != nil {
		a.log.Warn("cannot ask the user", "remote", a.remote, "error", err)
	}
	return got
}

// startQuestion reports whether a question may be asked now.
func (a *askpassServer) startQuestion() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.openQuestions == maxOpenQuestions || !a.lastDeclined.IsZero() && time.Since(a.lastDeclined) < declineCooldown {
		return false
	}
	a.openQuestions++
	return true
}

func (a *askpassServer) finishQuestion(answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.openQuestions--
	a.lastEnded = time.Now()
	if !answered {
		a.lastDeclined = a.lastEnded
	}
}

// askOnPage opens the page of a question and waits for its answer.
func (a *askpassServer) askOnPage(q askpassRequest, gone <-chan struct{}) (askpassResponse, error) {
	answers := make(chan askpassResponse, 1)
	address, remove, err := a.pages.Add(a.questionPage(q, answers))
	if err != nil {
		return askpassResponse{}, err
	}
	defer remove()
	ctx, stop := context.WithTimeout(a.ctx, questionTimeout)
	defer stop()
	forget, err := a.open(ctx, address)
	defer forget()
	if err != nil {
		return askpassResponse{}, fmt.Errorf("cannot open a browser: %w", err)
	}
	select {
	case got := <-answers:
		return got, nil
	case <-gone: // ssh has given up
	case <-ctx.Done():
	}
	return askpassResponse{}, nil
}

// questionPage returns the page of a question.
func (a *askpassServer) questionPage(q askpassRequest, answers chan<- askpassResponse) *browserprompt.Page {
	p := &browserprompt.Page{
		Title:  fmt.Sprintf("%s, which connects to %s, asks you this. The answer goes to %s, not into the conversation", a.program, a.remote, a.program),
		Prompt: q.Prompt, Secret: true,
		Decline: func() { answers <- askpassResponse{} },
		Answer: func(_ context.Context, text string) error {
			answers <- askpassResponse{Answered: true, Text: text}
			return nil
		},
	}
	if q.Kind == promptKindNone {
		p.Decline, p.Choices = nil, []string{closeLabel}
		p.Answer = func(context.Context, string) error {
			answers <- askpassResponse{Answered: true}
			return nil
		}
	} else if strings.Contains(q.Prompt, "(yes/no") || q.Kind == "confirm" {
		p.Decline, p.Choices = nil, []string{hostKeyAccept, hostKeyReject}
		p.Answer = func(_ context.Context, text string) error {
			answers <- askpassResponse{Answered: text == hostKeyAccept, Text: "yes"}
			return nil
		}
	}
	return p
}
