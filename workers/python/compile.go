package python

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/atomicfile"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/workers"
)

// maxCacheFiles bounds the files in the cache, one for each interpreter and version of the worker. The
// worker uses the same bound.
const maxCacheFiles = 16

// An executable identifies a program file in its current state. If the content changes, the value does.
type executable struct {
	Path  string // without symbolic links; "" if there is none
	State string
}

func executableAt(path string) executable {
	real, err := paths.Real(path)
	if err != nil {
		return executable{}
	}
	info, err := os.Stat(real)
	if err != nil {
		return executable{}
	}
	return executable{Path: real, State: fmt.Sprint(info.Size(), info.ModTime().UnixNano(), changeStamp(info))}
}

// newCompilation returns a preparation that compiles the modules in an interpreter that runs no user
// code: neither site-packages nor files that environment variables name.
func newCompilation(cache, id string, by executable) *workers.Compilation {
	if by.Path == "" {
		return nil
	}
	return &workers.Compilation{
		Path: by.Path,
		Args: []string{"-I", "-S", "-B", workers.FilesDir + "/" + programFile, "", id, "compile=" + workers.FilesDir},
		Key:  cache + "\x00" + id,
		HasResult: func() bool {
			cached, _ := filepath.Glob(filepath.Join(cache, "worker-*-"+id))
			return len(cached) > 0
		},
		SaveResult: func(name string, code []byte) error {
			if !strings.HasPrefix(name, "worker-") || !strings.HasSuffix(name, "-"+id) {
				return fmt.Errorf("python: %q is not the name of compiled code", name)
			}
			if executableAt(by.Path) != by {
				return fmt.Errorf("python: %s has changed since", by.Path)
			}
			return saveCompiled(cache, name, code)
		},
	}
}

// saveCompiled writes a file to the cache atomically, and removes the oldest files beyond the bound.
func saveCompiled(cache, name string, code []byte) error {
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return err
	}
	if st, err := os.Lstat(cache); err != nil || !st.IsDir() || st.Mode().Perm()&0o077 != 0 {
		return cmp.Or(err, errors.New("python: other users have rights to "+cache))
	}
	if err := atomicfile.Write(filepath.Join(cache, name), code, 0o600); err != nil {
		return err
	}
	return pruneCache(cache)
}

func pruneCache(cache string) error {
	entries, err := os.ReadDir(cache)
	var cached []fs.FileInfo
	for _, e := range entries {
		if info, e := e.Info(); e == nil && (strings.HasPrefix(info.Name(), "worker-") || strings.HasPrefix(info.Name(), "new-")) {
			cached = append(cached, info)
		}
	}
	sort.SliceStable(cached, func(i, j int) bool { return cached[i].ModTime().After(cached[j].ModTime()) })
	for _, old := range cached[min(len(cached), maxCacheFiles):] {
		err = errors.Join(err, os.Remove(filepath.Join(cache, old.Name())))
	}
	return err
}
