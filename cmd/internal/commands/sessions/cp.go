package sessions

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/session"
)

// maxCopyDepth bounds the directories below each other that are copied.
const maxCopyDepth = 100

// NewCopyCommand returns the command that copies files into the working directory of a session, and
// out of it.
func NewCopyCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	var c fileCopy
	r.Flags.BoolVar(&c.recursive, "recursive", false, "copy directories with everything in them")
	r.Flags.BoolVar(&c.recursive, "r", false, "same as --recursive")
	r.Flags.BoolVar(&c.overwrite, "overwrite", false, "replace files that exist")
	r.Flags.BoolVar(&c.overwrite, "f", false, "same as --overwrite")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := r.ParseArgs(args, "FROM", "TO")
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		from, to := parseCopyEnd(words[0]), parseCopyEnd(words[1])
		remote := from.remote + to.remote
		switch {
		case (from.session == "") == (to.session == ""):
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("one of FROM and TO must be SESSION:PATH and the other a file; a file whose name has a colon is ./NAME")
		case remote != "" && (r.Via != "" || r.Remote != "" && r.Remote != remote):
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("%s names a remote already; leave --remote and --via out", remote+"/"+from.session+to.session)
		case r.JSON && to.path == "-":
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--json and a file on standard output exclude each other")
		case remote != "":
			r.Remote = remote
		}
		c.streams = s
		return r.RunWithClient(func(ctx context.Context, link *client.Client) (int, error) {
			c.session = link.Session(from.session + to.session)
			c.bar = cmdkit.NewProgressBar(s.Err)
			err := c.copyBetween(ctx, from, to)
			c.bar.Close()
			if err != nil {
				return cmdkit.StatusFailed, err
			}
			if r.JSON {
				return cmdkit.StatusDone, cmdkit.PrintJSON(s.Out, c.copiedTotal)
			}
			return cmdkit.StatusDone, nil
		})
	}
}

// A copyEnd is one end of a copy: a file of this machine, or a path of a session.
type copyEnd struct{ remote, session, path string }

// parseCopyEnd parses an argument. SESSION:PATH and REMOTE/SESSION:PATH are in a session.
func parseCopyEnd(word string) copyEnd {
	name, rest, found := strings.Cut(word, ":")
	if !found || filepath.VolumeName(word) != "" {
		return copyEnd{path: word}
	}
	remote, inner, hasRemote := strings.Cut(name, "/")
	if !hasRemote {
		remote, inner = "", name
	}
	if !session.IsValidName(inner) || hasRemote && !session.IsValidName(remote) {
		return copyEnd{path: word}
	}
	return copyEnd{remote, inner, rest}
}

// A fileCopy is a run of the command.
type fileCopy struct {
	recursive, overwrite bool
	streams              cmdkit.Streams
	session              session.FileTransfer
	bar                  *cmdkit.ProgressBar
	copiedTotal
}

// copiedTotal says how much was copied.
type copiedTotal struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

func (c *fileCopy) copyBetween(ctx context.Context, from, to copyEnd) error {
	if to.session != "" {
		return c.copyIn(ctx, from.path, to.path)
	}
	return c.copyOut(ctx, from.path, to.path)
}

// copyIn copies a file of this machine to a path of the session.
func (c *fileCopy) copyIn(ctx context.Context, from, to string) error {
	if from == "-" {
		if to == "" || strings.HasSuffix(to, "/") {
			return cmdkit.UsageErrorf("standard input has no name; name the file in the session")
		}
		return c.putFile(ctx, c.streams.In, to, 0, false)
	}
	i, err := os.Stat(from)
	if err != nil {
		return err
	}
	if to == "" || strings.HasSuffix(to, "/") || c.isDirectory(ctx, to) {
		absolute, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		to = joinPath(to, filepath.Base(absolute))
	}
	if i.IsDir() {
		if !c.recursive {
			return fmt.Errorf("%s is a directory; copy it with -r", from)
		}
		return c.copyDirIn(ctx, from, to)
	}
	return c.putLocal(ctx, from, to)
}

// isDirectory reports whether a path of the session is a directory.
func (c *fileCopy) isDirectory(ctx context.Context, name string) bool {
	_, err := c.session.Files(ctx, name)
	return err == nil
}

// copyDirIn copies the files of a directory. Links, pipes and empty directories are left out.
func (c *fileCopy) copyDirIn(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(at string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		below, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			fmt.Fprintf(c.streams.Err, "repl: %s is not a regular file and was left out\n", cmdkit.PlainLine(at))
			return nil
		}
		return c.putLocal(ctx, at, joinPath(to, filepath.ToSlash(below)))
	})
}

// putLocal puts a file of this machine.
func (c *fileCopy) putLocal(ctx context.Context, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return err
	}
	return c.putFile(ctx, f, to, i.Size(), i.Mode()&0o100 != 0)
}

// putFile puts one file. size is for the progress; 0 means unknown.
func (c *fileCopy) putFile(ctx context.Context, from io.Reader, to string, size int64, executable bool) error {
	var done int64
	err := session.Put(ctx, c.session, to, from, &session.PutOptions{
		Overwrite: c.overwrite, Executable: executable, Parents: c.recursive,
		OnProgress: func(bytes int64) {
			done = bytes
			c.bar.SetProgress(cmdkit.PlainLine(to), bytes, size, "")
		},
	})
	c.count(done, err)
	return c.explain(err)
}

func (c *fileCopy) count(bytes int64, err error) {
	if err == nil {
		c.Files, c.Bytes = c.Files+1, c.Bytes+bytes
	}
}

// explain adds what to do about an error.
func (c *fileCopy) explain(err error) error {
	if session.KindOf(err) == session.KindFileExists && !c.overwrite {
		return fmt.Errorf("%w; replace it with -f", err)
	}
	return err
}

// joinPath joins a path of a session and a name of this machine.
func joinPath(dir, name string) string {
	if raw, isRaw := strings.CutPrefix(dir, session.RawPath); isRaw {
		parts := strings.Split(name, "/")
		for i, part := range parts {
			parts[i] = url.PathEscape(part)
		}
		return session.RawPath + strings.TrimRight(raw, "/") + "/" + strings.Join(parts, "/")
	}
	if joined := path.Join(dir, name); !strings.HasPrefix(joined, session.OwnFiles) && !strings.HasPrefix(joined, session.RawPath) && joined == strings.ToValidUTF8(joined, "") {
		return joined
	}
	parts := strings.Split(path.Join(dir, name), "/") // a name that looks like another form of path, or is not UTF-8
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return session.RawPath + strings.Join(parts, "/")
}

// copyOut copies a path of the session to this machine.
func (c *fileCopy) copyOut(ctx context.Context, from, to string) error {
	if to == "-" {
		_, err := c.getFile(ctx, from, c.streams.Out)
		return err
	}
	name, err := localName(from)
	if err != nil {
		return err
	}
	if i, err := os.Stat(to); strings.HasSuffix(to, "/") || err == nil && i.IsDir() {
		if name == "." {
			if !c.recursive {
				return fmt.Errorf("the working directory is a directory; copy it with -r")
			}
		} else {
			to = filepath.Join(to, name)
		}
	}
	if c.recursive && c.isDirectory(ctx, from) {
		if err := os.MkdirAll(to, 0o777); err != nil {
			return err
		}
		root, err := os.OpenRoot(to)
		if err != nil {
			return err
		}
		defer root.Close()
		return c.copyDirOut(ctx, from, root, 0)
	}
	root, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer root.Close()
	return c.getLocal(ctx, from, root, filepath.Base(to))
}

// localName returns the name that a path of a session has on this machine. A name of another
// machine could lead anywhere, so it must be a plain one.
func localName(from string) (string, error) {
	name := from
	if raw, isRaw := strings.CutPrefix(from, session.RawPath); isRaw {
		var err error
		if name, err = url.PathUnescape(raw); err != nil {
			return "", err
		}
	} else if own, isOwn := strings.CutPrefix(from, session.OwnFiles); isOwn {
		name = own
	}
	name = path.Base(path.Clean(name))
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return "", fmt.Errorf("%q cannot be the name of a file here", name)
	}
	return name, nil
}

// copyDirOut copies a directory of the session into one of this machine.
func (c *fileCopy) copyDirOut(ctx context.Context, from string, to *os.Root, depth int) error {
	if depth > maxCopyDepth {
		return fmt.Errorf("%s has more than %d directories below each other", cmdkit.PlainLine(from), maxCopyDepth)
	}
	list, err := c.session.Files(ctx, from)
	if err != nil {
		return err
	}
	if list.More {
		return fmt.Errorf("the directory %q has more than %d files; copy an archive of it", from, len(list.Files))
	}
	for _, f := range list.Files {
		name, err := localName(f.Path)
		switch {
		case err != nil:
			return err
		case f.Type == session.FileDirectory:
			if err := to.Mkdir(name, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
			below, err := to.OpenRoot(name)
			if err != nil {
				return err
			}
			err = c.copyDirOut(ctx, f.Path, below, depth+1)
			_ = below.Close()
			if err != nil {
				return err
			}
		case f.Type != "":
			fmt.Fprintf(c.streams.Err, "repl: %s is not a regular file and was left out\n", cmdkit.PlainLine(f.Name))
		default:
			if err := c.getLocal(ctx, f.Path, to, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// getLocal writes a file of the session to a file of this machine, which gets its name when it is
// complete.
func (c *fileCopy) getLocal(ctx context.Context, from string, dir *os.Root, name string) error {
	old, err := dir.Lstat(name)
	switch {
	case err == nil && !c.overwrite:
		return fmt.Errorf("%s exists already; replace it with -f", filepath.Join(dir.Name(), name))
	case err == nil && !old.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; name another", filepath.Join(dir.Name(), name))
	}
	temp := fmt.Sprintf(".get-%d-%d", os.Getpid(), c.Files)
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Remove(temp) }()
	executable, err := c.getFile(ctx, from, f)
	if i, e := f.Stat(); e == nil && err == nil && executable {
		err = f.Chmod(i.Mode() | i.Mode()&0o444>>2)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return dir.Rename(temp, name)
}

// getFile writes a file of the session to w.
func (c *fileCopy) getFile(ctx context.Context, from string, w io.Writer) (executable bool, err error) {
	var first session.FilePart // the other parts are read at the same time
	written := &progressWriter{Writer: w, onWrite: func(done int64) { c.bar.SetProgress(cmdkit.PlainLine(from), done, first.Bytes, "") }}
	err = session.CopyFile(written, func(offset int64) (session.FilePart, error) {
		p, err := c.session.File(ctx, from, offset, 0)
		if offset == 0 {
			first = p
		}
		return p, err
	})
	c.count(written.done, err)
	return first.Executable, err
}

// A progressWriter reports how many bytes have been written.
type progressWriter struct {
	io.Writer
	done    int64
	onWrite func(done int64)
}

func (w *progressWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.done += int64(n)
	w.onWrite(w.done)
	return n, err
}
