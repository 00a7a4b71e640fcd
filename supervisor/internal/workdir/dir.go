package workdir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/session"
)

// An Approver decides what a session with a sandbox may do with a name in an open directory, or with an
// open file. The errors are for the user.
type Approver interface {
	CheckRead(f *os.File) error
	CheckCreate(dir *os.File, name string) error
	CheckCreated(dir *os.File, name string) error // after the name was created; the caller then removes it
	CheckRemove(dir *os.File, name string) error
}

// A Dir is the working directory of a session, for one call.
type Dir struct {
	Path     string
	Approver Approver // nil without a sandbox
}

// dirSuffix ends each path that is opened as a directory. os.OpenRoot opens the last part of a path
// without O_DIRECTORY, and never returns if it is a pipe that nobody writes.
const dirSuffix = "/."

// open opens the directory.
func (d Dir) open() (*os.Root, error) {
	root, err := os.OpenRoot(d.Path + dirSuffix)
	if err != nil {
		return nil, fileError(session.KindNoFile, err, "the working directory %s cannot be opened: %v", d.Path, causeOf(err))
	}
	return root, nil
}

// A place is a name in an open directory. The owner of the value closes it.
type place struct {
	dir  *os.Root
	file *os.File // the same directory
	name string   // without slashes
}

func (p *place) close() {
	_ = p.file.Close()
	_ = p.dir.Close()
}

// openPlace opens the directory of a name.
func openPlace(root *os.Root, name string) (*place, error) {
	if name == "." {
		return nil, session.Errorf(session.KindNoFile, "the path names no file")
	}
	dir, err := root.OpenRoot(path.Dir(name) + dirSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fileError(session.KindNoFile, err, "no directory %.200q in the working directory; create it first", path.Dir(name))
	}
	if err != nil {
		return nil, openError(err, path.Dir(name))
	}
	f, err := dir.Open(".")
	if err != nil {
		_ = dir.Close()
		return nil, openError(err, path.Dir(name))
	}
	if err := checkOnDisk(f); err != nil {
		_, _ = f.Close(), dir.Close()
		return nil, err
	}
	return &place{dir, f, path.Base(name)}, nil
}

// makeParents creates the missing directories of a name.
func (d Dir) makeParents(root *os.Root, name string) error {
	parts := strings.Split(path.Dir(name), "/")
	for i := range parts {
		above := strings.Join(parts[:i+1], "/")
		if _, err := root.Stat(above); !errors.Is(err, fs.ErrNotExist) {
			continue // it exists, or opening it reports the error
		}
		if err := d.makeDir(root, above); err != nil {
			return err
		}
	}
	return nil
}

func (d Dir) makeDir(root *os.Root, name string) error {
	at, err := openPlace(root, name)
	if err != nil {
		return err
	}
	defer at.close()
	if err := d.checkCreate(at, at.name); err != nil {
		return err
	}
	if err := at.dir.Mkdir(at.name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return openError(err, name)
	}
	if err := d.checkCreated(at); err != nil {
		_ = at.dir.Remove(at.name)
		return err
	}
	return nil
}

func (d Dir) checkCreate(at *place, name string) error {
	if d.Approver == nil {
		return nil
	}
	return refusal(d.Approver.CheckCreate(at.file, name))
}

func (d Dir) checkCreated(at *place) error {
	if d.Approver == nil {
		return nil
	}
	return refusal(d.Approver.CheckCreated(at.file, at.name))
}

// List lists a directory.
func (d Dir) List(text string) (session.FileList, error) {
	list := session.FileList{Files: []session.File{}}
	name, err := parsePath(text)
	if err != nil {
		return list, err
	}
	root, err := d.open()
	if err != nil {
		return list, err
	}
	defer root.Close()
	if i, err := root.Stat(name); err == nil && !i.IsDir() {
		return list, session.Errorf(session.KindNoFile, "%.200q is not a directory", name)
	}
	dir, err := root.OpenRoot(name + dirSuffix)
	if err != nil {
		return list, openError(err, name)
	}
	defer dir.Close()
	f, err := dir.Open(".")
	if err != nil {
		return list, openError(err, name)
	}
	defer f.Close()
	if err := d.checkRead(f); err != nil {
		return list, err
	}
	names, err := f.Readdirnames(session.MaxListedFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return list, openError(err, name)
	}
	if list.More = len(names) > session.MaxListedFiles; list.More {
		names = names[:session.MaxListedFiles]
	}
	slices.Sort(names)
	for _, n := range names {
		if i, err := dir.Lstat(n); err == nil { // it may have been removed since
			list.Files = append(list.Files, describe(path.Join(name, n), i))
		}
	}
	return list, nil
}

// describe describes a file for a client.
func describe(name string, i fs.FileInfo) session.File {
	f := session.File{Name: strings.ToValidUTF8(path.Base(name), "\ufffd"), Path: pathOf(name), Bytes: i.Size(), Modified: i.ModTime()}
	switch mode := i.Mode(); {
	case mode.IsRegular():
		f.Executable = isExecutable(mode)
	case mode.IsDir():
		f.Type = session.FileDirectory
	case mode&fs.ModeSymlink != 0:
		f.Type = session.FileLink
	default:
		f.Type = session.FileOther
	}
	if f.Type != "" {
		f.Bytes = 0
	}
	return f
}

func isExecutable(mode fs.FileMode) bool { return mode&0o100 != 0 }

// Read reads a part of a regular file. limit is at most session.MaxPartBytes.
func (d Dir) Read(text string, offset int64, limit int) (session.FilePart, error) {
	var part session.FilePart
	name, err := parsePath(text)
	if err != nil {
		return part, err
	}
	root, err := d.open()
	if err != nil {
		return part, err
	}
	defer root.Close()
	if i, err := root.Stat(name); err != nil { // before it is opened, because opening a device can have effects
		return part, openError(err, name)
	} else if !i.Mode().IsRegular() {
		return part, notRegular(name, i.Mode())
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblockFlag, 0)
	if err != nil {
		return part, openError(err, name)
	}
	defer f.Close()
	before, err := f.Stat()
	switch {
	case err != nil:
		return part, openError(err, name)
	case !before.Mode().IsRegular():
		return part, notRegular(name, before.Mode())
	}
	if err := d.checkRead(f); err != nil {
		return part, err
	}
	part.Data, part.Offset, part.Bytes = make([]byte, max(0, min(int64(limit), before.Size()-offset))), offset, before.Size()
	n, err := f.ReadAt(part.Data, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return session.FilePart{}, openError(err, name)
	}
	after, err := f.Stat()
	if err != nil {
		return session.FilePart{}, openError(err, name)
	}
	if part.ID = versionOf(after); part.ID != versionOf(before) || n < len(part.Data) {
		return session.FilePart{}, session.Errorf(session.KindFileChanged, "%.200q was changed while it was read; read it again", name)
	}
	part.Executable = isExecutable(after.Mode())
	return part, nil
}

func (d Dir) checkRead(f *os.File) error {
	if err := checkOnDisk(f); err != nil {
		return err
	}
	if d.Approver == nil {
		return nil
	}
	return refusal(d.Approver.CheckRead(f))
}

// Remove removes a file or a link.
func (d Dir) Remove(text string) error {
	name, err := parsePath(text)
	if err != nil {
		return err
	}
	root, err := d.open()
	if err != nil {
		return err
	}
	defer root.Close()
	at, err := openPlace(root, name)
	if err != nil {
		return err
	}
	defer at.close()
	i, err := at.dir.Lstat(at.name)
	if err != nil {
		return openError(err, name)
	}
	if i.IsDir() {
		return session.Errorf(session.KindNoFile, "%.200q is a directory; only files and links can be removed", name)
	}
	if d.Approver != nil {
		if err := refusal(d.Approver.CheckRemove(at.file, at.name)); err != nil {
			return err
		}
	}
	if err := at.dir.Remove(at.name); err != nil {
		return openError(err, name)
	}
	return nil
}

// refusal returns the error for a decision of a Approver.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	return fileError(session.KindNoAccess, err, "the sandbox refuses it: %v", err)
}

func notRegular(name string, mode fs.FileMode) error {
	return session.Errorf(session.KindNoFile, "%.200q is %s, not a regular file", name, DescribeMode(mode))
}

// DescribeMode names the type of a file that is not regular.
func DescribeMode(m fs.FileMode) string {
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

// openError returns the error of a call of the system for the user.
func openError(err error, name string) error {
	switch cause := causeOf(err); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fileError(session.KindNoFile, err, "no file %.200q in the working directory", name)
	case errors.Is(err, fs.ErrExist):
		return fileError(session.KindFileExists, err, "%.200q exists already", name)
	case isEscape(err):
		return fileError(session.KindNoAccess, err, "%.200q leads out of the working directory through a link", name)
	case errors.Is(err, fs.ErrPermission), isReadOnly(err):
		return fileError(session.KindNoAccess, err, "%.200q: %v", name, cause)
	default:
		return fileError(session.KindFileFailed, err, "%.200q: %v", name, cause)
	}
}

// isEscape reports whether os.Root refused a path because it leads out of its directory. That
// error has no value to compare with.
func isEscape(err error) bool { return strings.Contains(err.Error(), "path escapes from parent") }

// causeOf returns the error below those that name a path.
func causeOf(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

func fileError(kind session.Kind, cause error, format string, args ...any) error {
	e := session.Errorf(kind, format, args...).(*session.Error) //nolint:forcetypeassert // it always is
	e.Cause = cause
	return e
}
