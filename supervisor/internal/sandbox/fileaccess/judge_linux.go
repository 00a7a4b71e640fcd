package fileaccess

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// A Judge decides about names for one session. It has the rules of the moment at which it was made,
// and asks the filesystem at each decision. It is for one goroutine.
type Judge struct {
	view   workerview.View
	self   *os.File // /proc/self/fd
	guard  *nameguard.Guard
	mounts map[string]mountlist.Mount
}

// New returns a judge for the session of a plan. The caller closes it.
func New(p *plan.Plan) (*Judge, error) {
	self, err := os.OpenFile("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	j := &Judge{view: workerview.New(), self: self, mounts: map[string]mountlist.Mount{}}
	j.view.SelfFilesFD = int(self.Fd())
	now := p.CurrentRules()
	for _, m := range now.Mounts {
		j.mounts[string(m.Path)] = m
	}
	j.guard = nameguard.New(&j.view)
	j.guard.ReadOwnRepos(string(now.State))
	j.guard.AddProtected(now.Absent, now.Mounts)
	j.guard.GuardMore(now.GuardedDirs, now.GitTargets)
	j.guard.HideMore(now.Unreadable)
	return j, nil
}

// Close releases the judge.
func (j *Judge) Close() { _ = j.self.Close() }

// CheckRead returns an error if the session does not see the machine's file that is open as f.
func (j *Judge) CheckRead(f *os.File) error {
	return j.explain(j.guard.WithStableFilePath(int(f.Fd()), func(full string) error {
		if isPseudoPath(full) {
			return fmt.Errorf("%s is not a file on a disk", full)
		}
		if j.guard.IsHidden(full) {
			return errors.New(readFault(full, mountlist.Mount{Kind: mountlist.MaskedPath}))
		}
		return asError(readFault(full, j.mountAt(full)))
	}))
}

// CheckCreate returns an error if the session could not give a file the name in an open directory.
func (j *Judge) CheckCreate(dir *os.File, name string) error {
	s, err := j.nameIn(dir, name)
	if err == nil {
		err = j.checkWritable(s)
	}
	if err == nil {
		err = j.guard.CheckCreate(s, true)
	}
	return j.explain(err)
}

// CheckCreated returns an error if a name that was just created must not exist after all, because
// a program has made a repository around it in the meantime. The caller then removes it.
func (j *Judge) CheckCreated(dir *os.File, name string) error {
	s, err := j.nameIn(dir, name)
	if err == nil {
		err = j.checkWritable(s)
	}
	if err == nil {
		err = j.guard.CheckCreated(s, true)
	}
	return j.explain(err)
}

// CheckRemove returns an error if the session could not remove a name in an open directory.
func (j *Judge) CheckRemove(dir *os.File, name string) error {
	s, err := j.nameIn(dir, name)
	if err == nil {
		err = j.checkWritable(s)
	}
	if err == nil {
		err = j.guard.CheckRemove(s)
	}
	return j.explain(err)
}

func (j *Judge) nameIn(dir *os.File, name string) (workerview.NameInDir, error) {
	fd := int(dir.Fd())
	full, err := j.view.FullPathOf(fd, name)
	return workerview.NameInDir{Dir: fd, Name: name, FullPath: full}, err
}

// checkWritable returns an error if the mounts of the session keep it from changing a name.
func (j *Judge) checkWritable(s workerview.NameInDir) error {
	if isPseudoPath(s.FullPath) {
		return fmt.Errorf("%s is not a file on a disk", s.FullPath)
	}
	if fault := writeFault(s.FullPath, j.mountAt(s.FullPath)); fault != "" {
		return errors.New(fault)
	}
	if _, isMount := j.mounts[s.FullPath]; isMount {
		return fmt.Errorf("%s is a mount point of the session, which cannot be replaced", s.FullPath)
	}
	return nil
}

// mountAt returns the nearest mount around a path, or the mount at it.
func (j *Judge) mountAt(path string) mountlist.Mount {
	for at := path; ; at = filepath.Dir(at) {
		if m, ok := j.mounts[at]; ok || at == "/" || at == "." {
			return m
		}
	}
}

// isPseudoPath reports whether a path is in a filesystem of which each session has its own instance.
func isPseudoPath(path string) bool {
	return strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/")
}

// explain returns an error for the user.
func (j *Judge) explain(err error) error {
	switch e, isProtected := errors.AsType[nameguard.ProtectedNameError](err); {
	case err == nil:
		return nil
	case isProtected && e.Setting != "":
		return fmt.Errorf("%s would set %s, which names a program that git runs", e.Path, e.Setting)
	case isProtected:
		return fmt.Errorf("%s is protected: programs outside of the sandbox run or trust it", e.Path)
	case errors.Is(err, unix.EBUSY):
		return errors.New("its directory is being moved")
	}
	return err
}

func asError(fault string) error {
	if fault == "" {
		return nil
	}
	return errors.New(fault)
}
