package agents

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/internal/securefile"
)

const (
	minTokenChars = 16  // characters; a shorter token can be guessed
	maxTokenChars = 512 // characters; fits into a header with room to spare
)

// tokenPath returns the default token file of repl mcp --http, or "" if there is no directory for
// it. Its directory holds only secrets.
func tokenPath() string {
	dir := cmdkit.StateDir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "private", "mcp-token")
}

// loadToken reads the token from a file. If the file is missing, it is created for this user alone,
// with its directory, so that the token stays the same. A file that others can read is rejected,
// because they may have read it.
func loadToken(path string) (string, error) {
	dir := filepath.Dir(path)
	if err := securefile.MakeDir(dir); err != nil {
		return "", fmt.Errorf("cannot find a directory for the token: %w", err)
	}
	if err := checkPrivateFile(dir); err != nil {
		return "", err
	}
	text, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	if err := createToken(path); err != nil {
		return "", fmt.Errorf("cannot store the token: %w", err)
	}
	return readToken(path)
}

// createToken creates the file completely or not at all. It does not replace a file that another
// process has created in the meantime.
func createToken(path string) error {
	f, err := securefile.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // if it still exists
	_, err = f.WriteString(rand.Text() + rand.Text() + "\n")
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = securefile.Rename(f.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func readToken(path string) (string, error) {
	if err := checkPrivateFile(path); err != nil {
		return "", err
	}
	f, err := securefile.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTokenChars+3)) // plus the end of the line
	if err != nil {
		return "", err
	}
	t := strings.TrimRight(string(text), "\r\n")
	switch {
	case len(t) < minTokenChars || len(t) > maxTokenChars:
		return "", fmt.Errorf("%s must hold a token of %d to %d characters; remove it to get a new one", path, minTokenChars, maxTokenChars)
	case strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s must hold one line of printable characters without blanks; remove it to get a new one", path)
	}
	return t, nil
}

// checkPrivateFile rejects a file to which others have access.
func checkPrivateFile(path string) error {
	if err := securefile.Check(path); err != nil {
		return fmt.Errorf("%w; or name another file for the token with --token-file", err)
	}
	return nil
}
