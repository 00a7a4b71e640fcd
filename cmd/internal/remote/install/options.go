package install

import (
	"io"
	"os"
	"time"
)

// Options configure where and how to install the program.
type Options struct {
	Prefix []string // the words of the transport command
	Env    []string // the environment of the command; nil means the environment of this process

	Terminal  *os.File         // the user's terminal, if the command may ask there; nil otherwise
	Stderr    io.Writer        // also gets the command's messages until the remote end answers; may be nil
	LastAsked func() time.Time // when the command last asked the user other than at Terminal; may be nil

	// Dir is a remote directory that is tried before the default ones; may be "".
	Dir string

	Programs ProgramFinder
	Timeout  time.Duration // until the remote end answers; 0 is DefaultTimeout

	stallTimeout time.Duration // for tests: how long no byte may be accepted; 0 is stepTimeout

	// OnSend is called before the program is sent, with the number of bytes to transfer; may be
	// nil.
	OnSend func(bytes int, dir string)
}
