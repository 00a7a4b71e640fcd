package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// greetingPrefix begins the line with which "repl bridge" says that the rest of its output is the
// daemon's. The number is the version of the line's format.
const greetingPrefix = "turnstone-bridge 1 "

// maxGreetingBytes bounds the line of the greeting, in bytes.
const maxGreetingBytes = 16 << 10

// A Greeting describes the daemon that "repl bridge" has reached, and the machine that it runs on.
type Greeting struct {
	Version  string    `json:"version"`
	Protocol int       `json:"protocol"` // see [Protocol]
	PID      int       `json:"pid"`      // the daemon's
	Host     string    `json:"host"`
	Boot     string    `json:"boot,omitempty"` // changes with each boot of the system; "" where the system has no such ID
	User     string    `json:"user"`
	OS       string    `json:"os"`   // as GOOS
	Arch     string    `json:"arch"` // as GOARCH
	Socket   string    `json:"socket"`
	Started  time.Time `json:"started"` // start time of the daemon

	// Error says why there is no daemon; "" if there is one.
	Error string       `json:"error,omitempty"`
	Kind  session.Kind `json:"kind,omitempty"` // of the error
}

// WriteGreeting writes a greeting on a separate line. nonce is the nonce of the client, or "" if
// the client sent none.
func WriteGreeting(w io.Writer, nonce string, g Greeting) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	if nonce == "" {
		nonce = noNonce
	}
	_, err = fmt.Fprintf(w, "\n%s%s %s\n", greetingPrefix, nonce, text)
	return err
}

// ErrTerminal means that the transport command has allocated a terminal.
var ErrTerminal = errors.New("the command must not allocate a terminal: use ssh -T, docker exec -i without -t, kubectl exec -i without -t")

// noNonce stands in a greeting of "repl bridge" that was given no nonce.
const noNonce = "-"

// errArgsLost means that the transport command drops the words that follow it.
var errArgsLost = errors.New("repl bridge runs there, but the words that follow the command were lost: it must run them, as in sh -c '\"$@\"' sh")

// parseGreeting parses a greeting from a line; ok reports whether it is one with this nonce.
func parseGreeting(line, nonce string) (g Greeting, ok bool, err error) {
	if strings.HasPrefix(line, greetingPrefix+noNonce+" ") {
		return g, true, errArgsLost
	}
	text, ok := strings.CutPrefix(line, greetingPrefix+nonce+" ")
	if !ok {
		return g, false, nil
	}
	text = strings.TrimSuffix(text, "\n")
	if strings.HasSuffix(text, "\r") {
		return g, true, ErrTerminal
	}
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return g, true, fmt.Errorf("the greeting of repl bridge is broken: %w", err)
	}
	return g, true, nil
}
