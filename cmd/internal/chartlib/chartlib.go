package chartlib

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/session"
)

// MaxFileBytes bounds the file of a library. The largest known one has 9 MB.
const MaxFileBytes = 16 << 20

const (
	// maxPathBytes bounds a path that user code names.
	maxPathBytes = 4096

	// maxDigests bounds the digests that a ScriptReader keeps. Beyond it, all are forgotten.
	maxDigests = 256

	// maxReads bounds the files that are read at once. A file system may hang.
	maxReads = 4
)

// releaseList has a line for each published build: its name, version and SHA-256.
//
//go:embed releases.txt
var releaseList string

// A Release is a published build of a library.
type Release struct {
	Name    string // plotly, bokeh, bokeh-widgets, bokeh-tables or bokeh-mathjax
	Version string // 3.9.2
	Digest  string // SHA-256 of the file, in lower case
}

// Find returns the published build with a SHA-256, which is in lower case.
func Find(digest string) (Release, bool) {
	if len(digest) != hex.EncodedLen(sha256.Size) {
		return Release{}, false
	}
	before, _, ok := strings.Cut(releaseList, " "+digest+"\n")
	line := strings.Fields(before[strings.LastIndexByte(before, '\n')+1:])
	if !ok || len(line) != 2 {
		return Release{}, false
	}
	return Release{Name: line[0], Version: line[1], Digest: digest}, true
}

// DigestOf returns the SHA-256 of a script as in Release.Digest.
func DigestOf(code []byte) string {
	sum := sha256.Sum256(code)
	return hex.EncodeToString(sum[:])
}

// A Script is a library as it was read from a file.
type Script struct {
	Release
	Code []byte
}

// A ScriptReader reads files of libraries and remembers their digests.
type ScriptReader struct {
	reads chan struct{} // has an element for each read in progress

	mu      sync.Mutex
	digests map[fileState]string // of known and unknown files
}

// A fileState tells whether the file at a path has changed since it was read.
type fileState struct {
	path     string
	size     int64
	modified int64 // in nanoseconds since 1970
}

// NewScriptReader returns a ScriptReader that has read nothing yet.
func NewScriptReader() *ScriptReader {
	return &ScriptReader{reads: make(chan struct{}, maxReads), digests: make(map[fileState]string)}
}

// Identify returns the published build in a file. It does not read a file again that has not changed.
// The errors are those of Read.
func (r *ScriptReader) Identify(ctx context.Context, path string) (Release, error) {
	info, err := statFile(path)
	if err != nil {
		return Release{}, err
	}
	r.mu.Lock()
	digest, ok := r.digests[stateOf(path, info)]
	r.mu.Unlock()
	if !ok {
		script, err := r.Read(ctx, path)
		return script.Release, err
	}
	return published(digest)
}

// Read reads a file and returns it if it is a published build. An error is of [session.KindNoFile]
// if the file is missing or is not regular, and of [session.KindTooLarge] beyond MaxFileBytes. It is
// of [session.KindInvalid] for a path that is not absolute and local, and of
// [session.KindNoAccess] for any other file.
func (r *ScriptReader) Read(ctx context.Context, path string) (Script, error) {
	select {
	case r.reads <- struct{}{}:
		defer func() { <-r.reads }()
	case <-ctx.Done():
		return Script{}, ctx.Err()
	}
	if _, err := statFile(path); err != nil { // before it is opened, because opening a device may have an effect
		return Script{}, err
	}
	f, err := openFile(path)
	if err != nil {
		return Script{}, fileError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Script{}, fileError(err)
	}
	if err := checkFile(info); err != nil {
		return Script{}, err
	}
	code, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return Script{}, fileError(err)
	}
	if len(code) > MaxFileBytes {
		return Script{}, errTooLarge()
	}
	digest := DigestOf(code)
	r.keepDigest(stateOf(path, info), digest)
	release, err := published(digest)
	if err != nil {
		return Script{}, err
	}
	return Script{release, code}, nil
}

func (r *ScriptReader) keepDigest(s fileState, digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.digests) >= maxDigests {
		clear(r.digests)
	}
	r.digests[s] = digest
}

func stateOf(path string, info fs.FileInfo) fileState {
	return fileState{path, info.Size(), info.ModTime().UnixNano()}
}

// statFile checks a path and what is there. A path of Windows must have a drive letter, because opening
// a path of another machine would send it the user's name.
func statFile(path string) (fs.FileInfo, error) {
	volume := filepath.VolumeName(path)
	if len(path) > maxPathBytes || !filepath.IsAbs(path) || volume != "" && len(volume) != len("C:") {
		return nil, session.Errorf(session.KindInvalid, "the path of a chart library must be absolute, on this machine, and have at most %d bytes", maxPathBytes)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fileError(err)
	}
	return info, checkFile(info)
}

func checkFile(info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return session.Errorf(session.KindNoFile, "the chart library is not a regular file")
	case info.Size() > MaxFileBytes:
		return errTooLarge()
	}
	return nil
}

func errTooLarge() error {
	return session.Errorf(session.KindTooLarge, "the file of the chart library has more than %d MB", MaxFileBytes>>20)
}

// fileError describes an error without the path, which is local.
func fileError(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return session.Errorf(session.KindNoFile, "the file of the chart library cannot be read: %v", err)
}

// published returns the build with a digest, or an error that says what kind of file this is.
func published(digest string) (Release, error) {
	if r, ok := Find(digest); ok {
		return r, nil
	}
	return Release{}, session.Errorf(session.KindNoAccess, "its library is not a published build that this program knows; it may be newer than this program, changed, or built by a Linux distribution")
}

// String returns the name and version of a release.
func (r Release) String() string { return fmt.Sprintf("%s %s", r.Name, r.Version) }
