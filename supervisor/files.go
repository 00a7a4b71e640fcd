package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Files implements session.Session.
func (s *Session) Files(context.Context) ([]session.File, error) {
	defer s.beginUse()()
	s.log.Sync()
	return listFiles(s.dir)
}

// File implements session.Session.
func (s *Session) File(_ context.Context, path string, offset int64, limit int) (session.FilePart, error) {
	defer s.beginUse()()
	if offset == 0 { // later parts read what was flushed for the first
		s.log.Sync()
	}
	return readPiece(s.dir, path, offset, limit)
}

// Files lists the saved regular files of the session by name.
func (c CrashedSession) Files() ([]session.File, error) { return listFiles(c.dir) }

// File reads part of a saved file of the session, like session.Session.File.
func (c CrashedSession) File(path string, offset int64, limit int) (session.FilePart, error) {
	return readPiece(c.dir, path, offset, limit)
}

// CrashedSessions returns the crashed sessions in the supervisor's directory, newest first.
func (sup *Supervisor) CrashedSessions() []CrashedSession { return listCrashedSessions(sup.o.Dir) }

// listFiles lists the regular files of a session's directory that clients may read.
func listFiles(dir string) ([]session.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, noFileError(err, "the session directory %s is gone: %v", dir, errors.Unwrap(err))
	}
	files := []session.File{}
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == lockFileName {
			continue
		}
		if i, err := e.Info(); err == nil { // it may have been removed since
			files = append(files, session.File{Name: e.Name(), Bytes: i.Size(), Modified: i.ModTime()})
		}
	}
	return files, nil
}

// readPiece reads part of a file in a session's directory. Session code may have put anything
// there, so it follows no links and never blocks on a pipe.
func readPiece(dir, path string, offset int64, limit int) (session.FilePart, error) {
	var none session.FilePart
	limit, err := limitOrDefault("limit", limit, session.MaxPartBytes, session.MaxPartBytes)
	if err != nil {
		return none, err
	}
	if offset < 0 {
		return none, session.Errorf(session.KindInvalid, "offset is %d: use 0 or more", offset)
	}
	f, size, err := openSessionFile(dir, path)
	if err != nil {
		return none, err
	}
	defer f.Close()
	data := make([]byte, max(0, min(int64(limit), size-offset)))
	n, err := f.ReadAt(data, offset)
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the file became shorter
		return none, noFileError(err, "cannot read %s: %v", path, errors.Unwrap(err))
	}
	return session.FilePart{BlobPart: session.BlobPart{Data: data[:n], Offset: offset, Bytes: size}, ID: fileID(f)}, nil
}

// openSessionFile opens a regular file in a session's directory.
func openSessionFile(dir, path string) (f *os.File, size int64, err error) {
	name := path
	if filepath.IsAbs(path) {
		if rel, err := filepath.Rel(dir, path); err == nil {
			name = rel
		}
	}
	if !filepath.IsLocal(name) || filepath.Base(name) != name || name == lockFileName {
		return nil, 0, noFileError(nil, "%.200q is not in %s; only files of the session directory can be read, by name", path, dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, noFileError(err, "the session directory %s is gone: %v", dir, errors.Unwrap(err))
	}
	defer root.Close()
	i, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && name == timeline.OutputName:
		return nil, 0, &session.Error{Kind: session.KindNoOutput, Cause: err, Message: session.ErrNoOutput.Error()}
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, noFileError(err, "no file %.200q in %s", name, dir)
	case err != nil:
		return nil, 0, noFileError(err, "cannot read %.200q: %v", name, errors.Unwrap(err))
	case !i.Mode().IsRegular():
		return nil, 0, noFileError(nil, "%.200q is %s; only regular files can be read", name, describeMode(i.Mode()))
	}
	if f, err = root.OpenFile(name, os.O_RDONLY|nonblockFlag, 0); err != nil {
		return nil, 0, noFileError(err, "cannot read %.200q: %v", name, errors.Unwrap(err))
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(i, now) { // it was replaced, perhaps by a link or a pipe
		_ = f.Close()
		return nil, 0, noFileError(err, "%.200q was replaced while it was opened; read it again", name)
	} else {
		return f, now.Size(), nil
	}
}

func noFileError(cause error, format string, args ...any) error {
	return &session.Error{Kind: session.KindNoFile, Cause: cause, Message: fmt.Sprintf(format, args...)}
}

// describeMode names the type of a file that is not regular.
func describeMode(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
