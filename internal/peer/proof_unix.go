//go:build unix

package peer

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

const (
	// maxLineBytes bounds a question, and its answer, in bytes.
	maxLineBytes = 16 << 10

	// minNonce and maxNonce bound the nonce, in characters.
	minNonce = 16
	maxNonce = 64
)

type question struct {
	Type  string `json:"type"`
	Nonce string `json:"nonce"`
}

type answer struct {
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	Data  Proof  `json:"data"`
}

// An UnprovenError means that the program at an address has not proved that it is the daemon of the
// user.
type UnprovenError struct {
	Address string
	PID     int // the process that listens; 0 if unknown
	Reason  string
}

func (e *UnprovenError) Error() string {
	who := ""
	if e.PID != 0 {
		who = fmt.Sprintf(" (process %d)", e.PID)
	}
	return fmt.Sprintf("the program that listens at %s%s does not prove that it is your daemon, so nothing is sent to it: %s", e.Address, who, e.Reason)
}

// Credentials returns the user and the process at the other end of a connection. If that is a
// daemon, it returns the process that called listen.
func Credentials(conn any) (uid uint32, pid int, err error) {
	err = withSocket(conn, func(fd int) (err error) {
		uid, pid, err = peerCredentials(fd)
		return err
	})
	return uid, pid, err
}

// withSocket calls do with the descriptor of a Unix socket connection.
func withSocket(conn any, do func(fd int) error) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("not a connection of a Unix socket")
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var doErr error
	if err := raw.Control(func(fd uintptr) { doErr = do(int(fd)) }); err != nil {
		return err
	}
	return doErr
}

// CanonicalAddress returns the path of a socket as both ends write it: absolute, and without links
// in its directory. An abstract name is returned unchanged.
func CanonicalAddress(path string) string {
	if strings.HasPrefix(path, "@") {
		return path
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if dir, err := paths.Real(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// NewProof returns the proof that a daemon listening at address gives to the client of a
// connection.
func NewProof(conn any, nonce, address string, keys KeyDirs) (p Proof, err error) {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	if len(nonce) < minNonce || len(nonce) > maxNonce || strings.ContainsFunc(nonce, odd) {
		return p, fmt.Errorf("nonce: use %d to %d random letters, digits, hyphens and underscores", minNonce, maxNonce)
	}
	uid, pid, err := Credentials(conn)
	if err != nil {
		return p, fmt.Errorf("unknown process of the client: %w", err)
	}
	if int(uid) != keys.UID && uid != 0 {
		return p, fmt.Errorf("the client belongs to another user (uid %d)", uid)
	}
	key, err := keys.LoadOrCreate() // read each time, because the user may have removed the file
	if err != nil {
		return p, err
	}
	p = Proof{Address: address, Client: processName(pid)}
	if err := withSocket(conn, checkAlive); err != nil { // so the name cannot be that of a later process
		return Proof{}, err
	}
	p.MAC = p.computeMAC(key, nonce)
	return p, nil
}

// computeMAC returns the code that proves the possession of a key, for a nonce.
func (p Proof) computeMAC(key []byte, nonce string) string {
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "turnstone daemon 1\n%s\n%s\n%s", nonce, p.Client, p.Address)
	return hex.EncodeToString(h.Sum(nil))
}

// AnswerQuestion reads one question from a connection and answers it, until the deadline of the
// connection.
func AnswerQuestion(conn net.Conn, address string, keys KeyDirs) error {
	line, err := readLine(conn)
	if err != nil {
		return err
	}
	var q question
	if err := json.Unmarshal(line, &q); err != nil || q.Type != Question {
		return errors.New("not a request for a proof")
	}
	var a answer
	if a.Data, err = NewProof(conn, q.Nonce, address, keys); err != nil {
		a.Error = err.Error()
	}
	a.OK = err == nil
	return writeLine(conn, a)
}

// RequestProof asks the daemon at the other end of a new connection for its proof, until ctx ends.
// An [UnprovenError] means that there was no valid proof. Other errors mean that the connection
// failed.
func RequestProof(ctx context.Context, conn net.Conn, address string, keys KeyDirs) error {
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err := requestProof(conn, address, keys)
	if !stop() && err != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return context.DeadlineExceeded
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	return err
}

func requestProof(conn net.Conn, address string, keys KeyDirs) error {
	nonce := rand.Text()
	if err := writeLine(conn, question{Question, nonce}); err != nil {
		return err
	}
	line, err := readLine(conn)
	if err != nil {
		return err
	}
	if err := verifyProof(line, nonce, address, keys); err != nil {
		_, pid, _ := Credentials(conn)
		return &UnprovenError{address, pid, err.Error()}
	}
	return nil
}

// verifyProof returns an error unless a line is the proof for a nonce.
func verifyProof(line []byte, nonce, address string, keys KeyDirs) error {
	var a answer
	if json.Unmarshal(line, &a) != nil {
		return errors.New("its answer is not a proof")
	}
	if !a.OK {
		return fmt.Errorf("it answers %.200q", a.Error)
	}
	key, err := keys.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; your daemon creates it, unless it has another XDG_STATE_HOME", err)
	}
	if err != nil {
		return err
	}
	switch p := a.Data; {
	case !hmac.Equal([]byte(p.MAC), []byte(p.computeMAC(key, nonce))):
		return fmt.Errorf("it does not have your key; if it is yours, it has another XDG_STATE_HOME than this program")
	case p.Address != address:
		return fmt.Errorf("it is your daemon at %s, which is another address", p.Address)
	case p.Client != ownProcessName():
		return errors.New("your daemon sees a different process than this one: a program in between has forwarded the question, or this is a container whose processes the daemon cannot see; use --via there")
	}
	return nil
}

func writeLine(conn net.Conn, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = conn.Write(append(text, '\n'))
	}
	return err
}

// readLine reads a line. It also returns bytes that follow the line, and a line that is too long:
// neither is a valid answer.
func readLine(conn net.Conn) ([]byte, error) {
	var line []byte
	part := make([]byte, 512)
	for {
		n, err := conn.Read(part)
		line = append(line, part[:n]...)
		if bytes.IndexByte(part[:n], '\n') >= 0 || len(line) > maxLineBytes {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
