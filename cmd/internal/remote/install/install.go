package install

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

//go:embed install.sh
var installScript string

const (
	// DefaultTimeout bounds the time until the shell of the far side speaks.
	DefaultTimeout = 20 * time.Second

	// stepTimeout bounds each later step of the far side, and the time in which no byte of the
	// program is taken.
	stepTimeout = time.Minute

	// maxDialectLooks is how often the script looks whether the program has grown, before it ends, and
	// lookInterval the seconds between two: together a while longer than stepTimeout, after which this
	// side has given up.
	maxDialectLooks, lookInterval = 15, 5

	// chunkSize is how many bytes of the program are sent at once.
	chunkSize = 32 << 10

	// swallowedNewlines are lines for a start file that reads its input: it has them in place of
	// the script.
	swallowedNewlines = "\n\n\n\n"
)

// Options say where the program goes.
type Options struct {
	Prefix []string // the words of the command that leads there
	Env    []string // its environment; nil is that of this process

	Terminal  *os.File         // the person's, if the command may ask there; nil is none
	Stderr    io.Writer        // also gets what the command says until the far side speaks; nil is nobody
	LastAsked func() time.Time // when the command last asked a person elsewhere; nil is never

	// Dir is a directory of the far side that is tried before the usual ones; "" is none.
	Dir string

	Programs Programs
	Timeout  time.Duration // until the far side speaks; 0 is DefaultTimeout

	stallTimeout time.Duration // of tests: how long no byte may be taken; 0 is stepTimeout

	// OnSend is called before the program is sent, with its size on the way in bytes; nil is
	// nobody.
	OnSend func(bytes int, dir string)
}

// An InstalledProgram is the program on the far side.
type InstalledProgram struct {
	Path    string // absolute; plain characters only
	Version string // what repl version prints there first
	System  string // "linux/amd64"
	Sent    int    // bytes that were sent; 0 if it was there
	Linked  bool   // the program needs the C library of the machine where it was built
}

// Install brings the program to the far side, unless it is there, and says where it is. An
// error says what was wrong and what to do. It is safe for concurrent use, also by several
// processes: each writes a file of its own, and the last step is a rename.
func Install(ctx context.Context, o Options) (InstalledProgram, error) {
	if o.Dir != "" && (!transportcmd.IsPlainWord(o.Dir) || !path.IsAbs(o.Dir)) {
		return InstalledProgram{}, fmt.Errorf("the directory %q of the far side: use an absolute path of letters, digits and _ . / = -", o.Dir)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.stallTimeout == 0 {
		o.stallTimeout = stepTimeout
	}
	nonce := rand.Text()
	t, err := startDialogue(ctx, o, nonce)
	if err != nil {
		return InstalledProgram{}, err
	}
	defer t.endCommand()
	t.limitStep(o.Timeout, "says nothing")
	if err := t.sendData([]byte(swallowedNewlines + formatScript(nonce, o.Dir, maxDialectLooks, lookInterval))); err != nil {
		return InstalledProgram{}, t.describeFailure(err)
	}
	there, err := o.runDialogue(t)
	if err != nil {
		return InstalledProgram{}, t.describeFailure(err)
	}
	return there, nil
}

// formatScript is the script for one far side.
func formatScript(nonce, dir string, looks, pause int) string {
	return strings.NewReplacer("@NONCE@", nonce, "@DIR@", dir, "@LOOKS@", strconv.Itoa(looks), "@PAUSE@", strconv.Itoa(pause)).Replace(installScript)
}

// runDialogue has the script find the program, or gives it that.
func (o Options) runDialogue(t *shellDialogue) (InstalledProgram, error) {
	said, err := t.readReply("here", 3)
	if err != nil {
		return InstalledProgram{}, err
	}
	t.MarkReady()
	system, err := systemName(said[0], said[1])
	if err != nil {
		return InstalledProgram{}, err
	}
	program, err := o.Programs.FindProgram(system)
	if err != nil {
		return InstalledProgram{}, err
	}
	there := InstalledProgram{System: system, Linked: program.Linked}
	t.limitStep(stepTimeout, "looks for the program")
	if err := t.sendData(fmt.Appendf(nil, "%s %d\n", hex.EncodeToString(program.sum[:]), len(program.data))); err != nil {
		return there, err
	}
	answer, err := t.readReply("have|send", 1)
	if err != nil {
		return there, o.explainRefusal(err, program, system)
	}
	if t.lastWord == "send" {
		if there.Sent, err = o.sendProgram(t, program, said[2] == "gzip", answer[0]); err != nil {
			return there, o.explainRefusal(err, program, system)
		}
		if answer, err = t.readReply("done", 1); err != nil {
			return there, o.explainRefusal(err, program, system)
		}
	}
	there.Path, there.Version = answer[0], strings.Join(answer[1:], " ")
	if !transportcmd.IsPlainWord(there.Path) || !path.IsAbs(there.Path) {
		return there, fmt.Errorf("the far side says that the program is at %q, which is no path", there.Path)
	}
	return there, nil
}

// sendProgram sends the program, packed if the far side can unpack it, and returns how many
// bytes went.
func (o Options) sendProgram(t *shellDialogue, p *Program, packed bool, dir string) (int, error) {
	t.timer.Stop() // packing is our part
	data := p.data
	if packed {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(data); err != nil {
			return 0, err
		}
		if err := z.Close(); err != nil {
			return 0, err
		}
		data = b.Bytes()
	}
	if o.OnSend != nil {
		o.OnSend(len(data), dir)
	}
	t.limitStep(o.stallTimeout, "takes no more of the program")
	if err := t.sendData(fmt.Appendf(nil, "%d\n", len(data))); err != nil {
		return 0, err
	}
	for rest := data; len(rest) > 0; {
		n := min(chunkSize, len(rest))
		if err := t.sendData(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
		t.limitStep(o.stallTimeout, "takes no more of the program")
	}
	t.limitStep(stepTimeout, "does not end with checking the program")
	return len(data), nil
}

// explainRefusal adds to a refusal of the far side what would help.
func (o Options) explainRefusal(err error, p *Program, system string) error {
	var no *refusalError
	if !errors.As(err, &no) || !strings.HasPrefix(no.reason, "it does not run") {
		return err
	}
	if p.Linked {
		return fmt.Errorf("%w. The program that was sent, %s, is linked with the C library of this machine, which may not be there: %s", err, p.path, o.Programs.missingHint(system))
	}
	return fmt.Errorf("%w. The program that was sent is %s, for %s", err, p.path, system)
}

// systemName returns the system, in the words of Go, that uname -s and uname -m name.
func systemName(kernel, machine string) (string, error) {
	if k := strings.ToUpper(kernel); strings.HasPrefix(k, "MINGW") || strings.HasPrefix(k, "MSYS") || strings.HasPrefix(k, "CYGWIN") {
		return "", errors.New(windowsHint)
	}
	os := map[string]string{"Linux": "linux", "Darwin": "darwin"}[kernel]
	arch := map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[machine]
	if os == "" || arch == "" {
		return "", fmt.Errorf("the far side is %s on %s, and repl is built for Linux and macOS on x86_64 and arm64 only", kernel, machine)
	}
	return os + "/" + arch, nil
}

const windowsHint = "the far side is Windows, where repl cannot be brought this way: install it there by hand (docs/install.md), and name it in the place: repl = \"C:/…/repl.exe\""
