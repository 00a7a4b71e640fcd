package broker

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// withParent opens the directory of a path and calls do with it and the last name, unless that name
// must not be created. moving means that the name may be given to a directory with content.
func (b *Broker) withParent(file string, moving bool, do func(workerview.NameInDir) error) error {
	dir, last := path.Split(strings.TrimRight(file, "/"))
	if last == "" || last == "." || last == ".." {
		return unix.EEXIST
	}
	s, err := b.OpenNameInDir(dir, last)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := b.CheckCreate(s, moving); err != nil {
		return err
	}
	return do(s)
}

// createChecked calls do, which creates a name, and undoes it if the check of the result fails.
func (b *Broker) createChecked(s workerview.NameInDir, do func(workerview.NameInDir) error) error {
	err := do(s)
	if err != nil {
		return err
	}
	if err = b.CheckCreated(s, false); err != nil {
		s.RemoveOrRename()
	}
	return err
}

// withNewName is withParent for a call that fails if the name exists, even if it is protected.
func (b *Broker) withNewName(file string, moving bool, do func(workerview.NameInDir) error) error {
	tried := false
	err := b.withParent(file, moving, func(s workerview.NameInDir) error {
		tried = true
		return b.createChecked(s, do)
	})
	if denied, isDenied := err.(nameguard.ProtectedNameError); isDenied && !tried && filestate.IsPresent(denied.Path) {
		return unix.EEXIST
	}
	return err
}

// withUmask runs f with the umask of the program.
func (b *Broker) withUmask(n *seccompNotif, f func() error) error {
	mask, err := b.UmaskOf(int(n.PID))
	if err != nil {
		return err
	}
	unix.Umask(mask)
	return f()
}
