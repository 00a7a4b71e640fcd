package cli

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

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/askpage"
)

// askpassEnv has the path of a socket. ssh starts this program, with it and with the question as
// its only argument, to ask the person.
const askpassEnv = "REPL_ASKPASS"

const (
	// askTime bounds how long a question waits for the person.
	askTime = 2 * time.Minute

	// restTime is how long nothing is asked after the person has declined, or did not answer: a
	// link that is made again would ask again and again.
	restTime = 5 * time.Minute

	// maxQuestion bounds a question, in bytes, and maxAsking the questions at the same time.
	maxQuestion = 16 << 10
	maxAsking   = 4
)

// The answers to a question about a host's key.
const (
	hostYes = "Yes, this is its key: connect"
	hostNo  = "No"

	// seen is the button below news.
	seen = "Close"
)

// A question goes from the process that ssh starts to the one that knows the person.
type question struct {
	Prompt string `json:"prompt"`
	Kind   string `json:"kind,omitempty"` // SSH_ASKPASS_PROMPT: "confirm", kindNone or nothing
}

// kindNone is that of news to which no answer is wanted: a key waits to be touched. ssh takes it
// back when that was done.
const kindNone = "none"

// An answer comes back. Without one, the process fails, so that ssh ends: to a question about a
// host's key, anything but yes and no makes ssh ask again without end.
type answer struct {
	Given bool   `json:"given"`
	Text  string `json:"text,omitempty"`
}

// isQuestion reports whether the arguments are those of ssh: one, and no command of ours.
func isQuestion(args []string) bool {
	if len(args) != 1 {
		return false
	}
	_, ours := commandNamed(args[0])
	return !ours && !strings.HasPrefix(args[0], "-")
}

// askpass has the person asked, and prints the answer for ssh.
func askpass(s streams, at, prompt string) int {
	a, err := askAt(at, question{Prompt: prompt, Kind: os.Getenv("SSH_ASKPASS_PROMPT")})
	if err != nil {
		fmt.Fprintln(s.err, "repl:", err)
		return statusFailed
	}
	fmt.Fprintln(s.out, a.Text)
	return statusDone
}

func askAt(at string, q question) (a answer, err error) {
	conn, err := net.Dial("unix", at)
	if err != nil {
		return a, fmt.Errorf("nobody can be asked: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(askTime + pageTime)); err != nil {
		return a, err
	}
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return a, err
	}
	if err := json.NewDecoder(io.LimitReader(conn, 2*maxQuestion)).Decode(&a); err != nil {
		return a, fmt.Errorf("nobody has answered: %w", err)
	}
	if !a.Given {
		return a, errors.New("the user has not answered, or declined")
	}
	return a, nil
}

// pageTime is what opening the page may take on top.
const pageTime = 15 * time.Second

// An asker puts the questions of a place's command to the person, each on a page in their browser.
// Neither the model nor its client sees them.
//
// It has a goroutine that accepts questions, and one for each question. They end with close.
type asker struct {
	place    string
	program  string // that asks
	dir      string // of the socket
	listener net.Listener
	log      *slog.Logger
	open     func(ctx context.Context, address string) (remove func(), err error)
	pages    askpage.Pages
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	asking   int       // guarded by mu: questions that are open
	asked    time.Time // guarded by mu: when the last one ended
	declined time.Time // guarded by mu: when the person has not answered last
}

// askFor has the questions of a way without a terminal put to the person, where they have a
// browser. Elsewhere nobody is asked, and the command ends with its own words. The result ends it.
func askFor(way *client.Command, log *slog.Logger) (end func()) {
	way.Env = append(without(os.Environ(), "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", askpassEnv), "SSH_ASKPASS_REQUIRE=never")
	if !askpage.BrowserHere() {
		return func() {}
	}
	a, err := newAsker(way, log)
	if err != nil {
		log.Warn("the user cannot be asked what the command of a place wants to know", "error", err)
		return func() {}
	}
	return a.close
}

// newAsker begins to take questions, and has the way send them.
func newAsker(way *client.Command, log *slog.Logger) (*asker, error) {
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
	a := &asker{place: way.Place(), program: filepath.Base(way.Prefix[0]), dir: dir, listener: listener, log: log, open: openBrowser}
	a.ctx, a.stop = context.WithCancel(context.Background())
	a.running.Go(a.serve)
	way.LastPrompt = a.lastAsked
	way.Env = append(without(way.Env, "SSH_ASKPASS_REQUIRE"), "SSH_ASKPASS="+self, "SSH_ASKPASS_REQUIRE=force", askpassEnv+"="+listener.Addr().String())
	if os.Getenv("DISPLAY") == "" { // OpenSSH before 8.4 asks only where there is one
		way.Env = append(way.Env, "DISPLAY=none:0")
	}
	return a, nil
}

// without leaves variables out of an environment.
func without(env []string, names ...string) (rest []string) {
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		keep := true
		for _, n := range names {
			keep = keep && n != name
		}
		if keep {
			rest = append(rest, kv)
		}
	}
	return rest
}

// close ends all questions without an answer.
func (a *asker) close() {
	a.stop()
	_ = a.listener.Close()
	a.running.Wait()
	a.pages.Close()
	_ = os.RemoveAll(a.dir)
}

// lastAsked is now while a question is open.
func (a *asker) lastAsked() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking > 0 {
		return time.Now()
	}
	return a.asked
}

func (a *asker) serve() {
	for {
		conn, err := a.listener.Accept()
		if err != nil {
			return
		}
		a.running.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(a.ctx, func() { _ = conn.Close() })()
			_ = conn.SetDeadline(time.Now().Add(askTime + pageTime))
			var q question
			if json.NewDecoder(io.LimitReader(conn, maxQuestion)).Decode(&q) != nil {
				return
			}
			_ = json.NewEncoder(conn).Encode(a.ask(q, goneOf(conn)))
		})
	}
}

// goneOf is closed when the process that asks has ended: it sends nothing more.
func goneOf(conn net.Conn) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
	return gone
}

// ask puts a question to the person.
func (a *asker) ask(q question, gone <-chan struct{}) answer {
	if !a.begin() {
		return answer{}
	}
	got, err := a.onPage(q, gone)
	a.end(got.Given || err != nil || q.Kind == kindNone)
	if err != nil {
		a.log.Warn("the user cannot be asked", "place", a.place, "error", err)
	}
	return got
}

// begin reports whether a question may be asked now.
func (a *asker) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking == maxAsking || !a.declined.IsZero() && time.Since(a.declined) < restTime {
		return false
	}
	a.asking++
	return true
}

func (a *asker) end(answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking--
	a.asked = time.Now()
	if !answered {
		a.declined = a.asked
	}
}

// onPage opens the page of a question, and waits for its answer.
func (a *asker) onPage(q question, gone <-chan struct{}) (answer, error) {
	answers := make(chan answer, 1)
	address, remove, err := a.pages.Add(a.pageOf(q, answers))
	if err != nil {
		return answer{}, err
	}
	defer remove()
	ctx, stop := context.WithTimeout(a.ctx, askTime)
	defer stop()
	forget, err := a.open(ctx, address)
	defer forget()
	if err != nil {
		return answer{}, fmt.Errorf("no browser opens: %w", err)
	}
	select {
	case got := <-answers:
		return got, nil
	case <-gone: // ssh has given up
	case <-ctx.Done():
	}
	return answer{}, nil
}

// pageOf is the page of a question.
func (a *asker) pageOf(q question, answers chan<- answer) *askpage.Page {
	p := &askpage.Page{
		About:  fmt.Sprintf("%s, which leads to the place %s, asks you. The answer goes to %s, not into the conversation", a.program, a.place, a.program),
		Prompt: q.Prompt, Secret: true,
		Decline: func() { answers <- answer{} },
		Answer: func(_ context.Context, text string) error {
			answers <- answer{Given: true, Text: text}
			return nil
		},
	}
	if q.Kind == kindNone {
		p.Decline, p.Choices = nil, []string{seen}
		p.Answer = func(context.Context, string) error {
			answers <- answer{Given: true}
			return nil
		}
	} else if strings.Contains(q.Prompt, "(yes/no") || q.Kind == "confirm" {
		p.Decline, p.Choices = nil, []string{hostYes, hostNo}
		p.Answer = func(_ context.Context, text string) error {
			answers <- answer{Given: text == hostYes, Text: "yes"}
			return nil
		}
	}
	return p
}
