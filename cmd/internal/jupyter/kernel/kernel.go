package kernel

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/comms"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/session"
)

// A LanguageInfo describes the session's language to front ends, as in a kernel_info reply.
type LanguageInfo struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	MIME        string `json:"mimetype"`
	Extension   string `json:"file_extension"` // with its dot
	Lexer       string `json:"pygments_lexer"`
	Mode        string `json:"codemirror_mode"`
	NBConverter string `json:"nbconvert_exporter"`

	// PrintFormat is code that prints the value of an expression. The expression replaces %s in the
	// code. "" means that the expression alone prints its value.
	PrintFormat string `json:"-"`
}

// Options configure a kernel: its connection, its session and its language.
type Options struct {
	Connection wire.Connection

	// Open returns the session, and creates it if necessary. It is called at the start, and again when
	// the session has ended and a request needs one.
	Open func(context.Context) (session.Session, session.Info, error)

	// Language describes a language by its name in session.Info.
	Language func(name string) LanguageInfo

	Version string // of this program

	// EndsSession makes a shutdown end the session; otherwise the session stays open. ResetsSession
	// makes a restart reset it; otherwise only the kernel's process is restarted.
	EndsSession, ResetsSession bool

	// PermissionHint names the command with which a user answers permission requests of the session, or "".
	PermissionHint string

	// Interrupts delivers signals that interrupt the session, like interrupt requests.
	Interrupts <-chan os.Signal

	Notes io.Writer // for notices to the user; nil discards them
}

// A kernel serves the sockets of one connection file.
type kernel struct {
	options Options
	codec   *wire.Codec
	id      string // of the kernel in headers
	ctx     context.Context
	stop    context.CancelFunc
	tasks   sync.WaitGroup // all goroutines except those of listeners

	sessions   currentSession
	shell      requestQueue
	subs       subscribers
	inputs     stdinChannel
	pastInputs executionHistory
	controls   comms.Controls

	mu               sync.Mutex
	rejectedMessages int
}

func (k *kernel) printNotice(format string, args ...any) {
	if k.options.Notes != nil {
		fmt.Fprintf(k.options.Notes, "repl: "+format+"\n", args...)
	}
}
