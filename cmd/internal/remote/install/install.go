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
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

//go:embed install.sh
var installScript string

const (
	// DefaultTimeout bounds the time until the remote shell answers.
	DefaultTimeout = 20 * time.Second

	// stepTimeout bounds each later step of the remote end, and the time in which it accepts no
	// byte of the program.
	stepTimeout = time.Minute

	// maxDialectLooks bounds how often the script checks whether the program has grown, and
	// lookInterval is the seconds between two checks. Together they take a little longer than
	// stepTimeout, after which this side has given up.
	maxDialectLooks, lookInterval = 15, 5

	// chunkSize is the size of the program's chunks, in bytes.
	chunkSize = 32 << 10

	// swallowedNewlines precede the script. A startup file that reads standard input reads these lines
	// instead of the script.
	swallowedNewlines = "\n\n\n\n"
)

// An InstalledProgram describes the program at the remote end.
type InstalledProgram struct {
	Path    string // absolute; plain characters only
	Version string // the first line that repl version prints there
	System  string // "linux/amd64"
	Sent    int    // bytes that were sent; 0 if it was already installed
	Linked  bool   // the program needs the C library of the machine where it was built
}

// Install installs the program at the remote end, unless it is already installed, and returns its
// location. An error names the problem and a remedy. It is safe for concurrent use, also by several
// processes: each writes a separate file, and the last step is a rename.
func Install(ctx context.Context, o Options) (InstalledProgram, error) {
	if o.Dir != "" && (!transportcmd.IsPlainWord(o.Dir) || !path.IsAbs(o.Dir)) {
		return InstalledProgram{}, fmt.Errorf("remote directory %q: use an absolute path of letters, digits and _ . / = -", o.Dir)
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
	installed, err := o.runDialogue(t)
	if err != nil {
		return InstalledProgram{}, t.describeFailure(err)
	}
	return installed, nil
}

// formatScript fills in the script for one remote end.
func formatScript(nonce, dir string, checks, pause int) string {
	return strings.NewReplacer("@NONCE@", nonce, "@DIR@", dir, "@LOOKS@", strconv.Itoa(checks), "@PAUSE@", strconv.Itoa(pause)).Replace(installScript)
}

// runDialogue lets the script find the program, or sends it.
func (o Options) runDialogue(t *shellDialogue) (InstalledProgram, error) {
	reply, err := t.readReply("here", 3)
	if err != nil {
		return InstalledProgram{}, err
	}
	t.MarkReady()
	system, err := systemName(reply[0], reply[1])
	if err != nil {
		return InstalledProgram{}, err
	}
	program, err := o.Programs.FindProgram(system)
	if err != nil {
		return InstalledProgram{}, err
	}
	installed := InstalledProgram{System: system, Linked: program.Linked}
	t.limitStep(stepTimeout, "looks for the program")
	if err := t.sendData(fmt.Appendf(nil, "%s %d\n", hex.EncodeToString(program.sum[:]), len(program.data))); err != nil {
		return installed, err
	}
	answer, err := t.readReply("have|send", 1)
	if err != nil {
		return installed, o.explainRefusal(err, program, system)
	}
	if t.lastWord == "send" {
		if installed.Sent, err = o.sendProgram(t, program, reply[2] == "gzip", answer[0]); err != nil {
			return installed, o.explainRefusal(err, program, system)
		}
		if answer, err = t.readReply("done", 1); err != nil {
			return installed, o.explainRefusal(err, program, system)
		}
	}
	installed.Path, installed.Version = answer[0], strings.Join(answer[1:], " ")
	if !transportcmd.IsPlainWord(installed.Path) || !path.IsAbs(installed.Path) {
		return installed, fmt.Errorf("the remote end reports the program at %q, which is not a valid path", installed.Path)
	}
	return installed, nil
}

// sendProgram sends the program, compressed if the remote end can decompress it, and returns the
// number of bytes sent.
func (o Options) sendProgram(t *shellDialogue, p *ProgramFile, packed bool, dir string) (int, error) {
	t.timer.Stop() // the compression does not depend on the remote end
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
	t.limitStep(o.stallTimeout, "accepts no more of the program")
	if err := t.sendData(fmt.Appendf(nil, "%d\n", len(data))); err != nil {
		return 0, err
	}
	for rest := data; len(rest) > 0; {
		n := min(chunkSize, len(rest))
		if err := t.sendData(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
		t.limitStep(o.stallTimeout, "accepts no more of the program")
	}
	t.limitStep(stepTimeout, "does not finish checking the program")
	return len(data), nil
}

// explainRefusal adds a hint to a refusal of the remote end.
func (o Options) explainRefusal(err error, p *ProgramFile, system string) error {
	var no *refusalError
	if !errors.As(err, &no) || !strings.HasPrefix(no.reason, "it does not run") {
		return err
	}
	if p.Linked {
		return fmt.Errorf("%w; the program, %s, is linked with the C library of this machine, which may be missing there; %s", err, p.path, o.Programs.missingHint(system))
	}
	return fmt.Errorf("%w; the program was %s, for %s", err, p.path, system)
}

// systemName returns the Go name of a system with the given uname -s and uname -m.
func systemName(kernel, machine string) (string, error) {
	if k := strings.ToUpper(kernel); strings.HasPrefix(k, "MINGW") || strings.HasPrefix(k, "MSYS") || strings.HasPrefix(k, "CYGWIN") {
		return "", errors.New(windowsHint)
	}
	os := map[string]string{"Linux": "linux", "Darwin": "darwin"}[kernel]
	arch := map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[machine]
	if os == "" || arch == "" {
		return "", fmt.Errorf("the remote end is %s on %s, but repl is built only for Linux and macOS on x86_64 and arm64", kernel, machine)
	}
	return os + "/" + arch, nil
}
