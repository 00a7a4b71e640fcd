package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/fileaccess"
	"github.com/turnstone-repl/turnstone/supervisor/internal/workdir"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Files implements session.Session.
func (s *Session) Files(_ context.Context, path string) (session.FileList, error) {
	defer s.beginUse()()
	if path == session.OwnFiles {
		s.log.Sync()
		return listFiles(s.dir)
	}
	if strings.HasPrefix(path, session.OwnFiles) {
		return session.FileList{}, noFileError(nil, "the session's own directory has no directories; list %q", session.OwnFiles)
	}
	dir, release, err := s.workingDir(true)
	if err != nil {
		return session.FileList{}, err
	}
	defer release()
	return dir.List(path)
}

// File implements session.Session.
func (s *Session) File(_ context.Context, path string, offset int64, limit int) (session.FilePart, error) {
	defer s.beginUse()()
	if own, ok := s.ownFile(path); ok {
		if offset == 0 { // later parts read what was flushed for the first
			s.log.Sync()
		}
		return readPiece(s.dir, own, offset, limit)
	}
	limit, err := checkPart(offset, limit)
	if err != nil {
		return session.FilePart{}, err
	}
	dir, release, err := s.workingDir(offset == 0)
	if err != nil {
		return session.FilePart{}, err
	}
	defer release()
	return dir.Read(path, offset, limit)
}

// ownFile returns the name of a file in the session's own directory, or its full path, if a path
// means one.
func (s *Session) ownFile(path string) (own string, ok bool) {
	if own, ok = strings.CutPrefix(path, session.OwnFiles); ok {
		return own, true
	}
	return path, filepath.IsAbs(path) && paths.Contains(s.dir, filepath.Clean(path))
}

// PutFile implements session.Session.
func (s *Session) PutFile(ctx context.Context, p session.FilePiece) (session.PutProgress, error) {
	defer s.beginUse()()
	var held []func()
	defer func() {
		for _, release := range held {
			release()
		}
	}()
	return s.puts.Take(ctx, func() (workdir.Dir, error) {
		dir, release, err := s.workingDir(true)
		if errors.Is(err, errNoWorker) {
			return dir, workdir.Retryable(err)
		}
		if err == nil {
			held = append(held, release)
		}
		return dir, err
	}, p)
}

// RemoveFile implements session.Session.
func (s *Session) RemoveFile(_ context.Context, path string) error {
	defer s.beginUse()()
	if strings.HasPrefix(path, session.OwnFiles) {
		return session.Errorf(session.KindNoAccess, "the session's own directory is read-only")
	}
	dir, release, err := s.workingDir(true)
	if err != nil {
		return err
	}
	defer release()
	return dir.Remove(path)
}

// errNoWorker is the cause of an error that is over once the session has a worker.
var errNoWorker = errors.New("no worker")

// workingDir returns the working directory, with the decisions of the sandbox of the running worker.
// With refresh, the sandbox first takes over what programs outside have changed, as at the start of
// a turn. The caller calls release afterwards.
func (s *Session) workingDir(refresh bool) (dir workdir.Dir, release func(), err error) {
	s.mu.Lock()
	phase, w, spec, closed := s.m.phase, s.worker, s.spec, s.m.closedError()
	if refresh && w != nil && w.plan != nil && phase != phaseClosed {
		notices, err := w.proc.RefreshSandbox()
		for _, n := range notices {
			s.m.recordNotice("%s", n)
		}
		if err != nil {
			w = nil // it is ending
		}
	}
	s.unlock()
	release = func() {}
	if phase == phaseClosed || phase == phaseClosing {
		return dir, release, closed
	}
	if dir.Path = spec.Dir; dir.Path == "" {
		if dir.Path, err = os.Getwd(); err != nil {
			return dir, release, err
		}
	}
	if !spec.Sandbox.Confines() {
		return dir, release, nil
	}
	if w == nil || w.plan == nil {
		return dir, release, &session.Error{Kind: session.KindNoAccess, Cause: errNoWorker, Message: "the session has no worker now, whose sandbox decides about files; run code or reset the session, and try again"}
	}
	judge, err := fileaccess.New(w.plan)
	if err != nil {
		return dir, release, err
	}
	dir.Approver = judge
	return dir, judge.Close, nil
}

// Files lists the saved regular files of the session by name.
func (c CrashedSession) Files() (session.FileList, error) { return listFiles(c.dir) }

// File reads part of a saved file of the session, like session.Session.File. The path begins with
// session.OwnFiles.
func (c CrashedSession) File(path string, offset int64, limit int) (session.FilePart, error) {
	own, ok := strings.CutPrefix(path, session.OwnFiles)
	if !ok {
		return session.FilePart{}, noFileError(nil, "of a crashed session only the own files can be read, as %q", session.OwnFiles+"NAME")
	}
	return readPiece(c.dir, own, offset, limit)
}

// checkPart returns the limit of a part, at most session.MaxPartBytes.
func checkPart(offset int64, limit int) (int, error) {
	if offset < 0 {
		return 0, session.Errorf(session.KindInvalid, "offset is %d: use 0 or more", offset)
	}
	return limitOrDefault("limit", limit, session.MaxPartBytes, session.MaxPartBytes)
}

// CrashedSessions returns the crashed sessions in the supervisor's directory, newest first.
func (sup *Supervisor) CrashedSessions() []CrashedSession { return listCrashedSessions(sup.o.Dir) }

// listFiles lists the regular files of a session's directory that clients may read.
func listFiles(dir string) (session.FileList, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return session.FileList{}, noFileError(err, "the session directory %s is gone: %v", dir, errors.Unwrap(err))
	}
	list := session.FileList{Files: []session.File{}}
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == lockFileName {
			continue
		}
		if i, err := e.Info(); err == nil { // it may have been removed since
			list.Files = append(list.Files, session.File{Name: e.Name(), Path: session.OwnFiles + e.Name(), Bytes: i.Size(), Modified: i.ModTime()})
		}
	}
	return list, nil
}

// readPiece reads part of a file in a session's directory. Session code may have put anything
// there, so it follows no links and never blocks on a pipe.
func readPiece(dir, path string, offset int64, limit int) (session.FilePart, error) {
	var none session.FilePart
	limit, err := checkPart(offset, limit)
	if err != nil {
		return none, err
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
		return nil, 0, noFileError(nil, "%.200q is %s; only regular files can be read", name, workdir.DescribeMode(i.Mode()))
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
