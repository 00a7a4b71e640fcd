package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/workers"
)

// A caution is how doctor tries a runtime. A directory may be a stranger's: its .venv and .Rprofile are run
// in a sandbox, or not at all, unless the person says otherwise.
type caution struct {
	sandbox *workers.Sandbox // nil where there is none, and for a person who wants none
	trusts  bool             // the person has chosen
}

func (c *choice) caution(ctx context.Context, chosen bool) caution {
	if chosen || c.sandbox != nil {
		return caution{c.sandbox, true}
	}
	if _, err := sandboxHere(ctx, ""); err != nil {
		return caution{}
	}
	return caution{sandbox: &workers.Sandbox{Level: workers.ReadOnly, Network: workers.NetworkNone, Quiet: true}}
}

// place returns where something is started without a sandbox: "" where that may be anywhere, else a
// directory of its own, which clean removes.
func (c caution) place() (dir string, clean func(), err error) {
	if c.trusts || c.sandbox != nil {
		return "", func() {}, nil
	}
	dir, err = os.MkdirTemp("", "repl-doctor-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// apply makes a spec one that doctor may start. named means that the person has named its runtime.
func (c caution) apply(spec *workers.Spec, looked string, named bool) (clean func(), err error) {
	dir, clean, err := c.place()
	if err != nil {
		return nil, err
	}
	spec.Sandbox = c.sandbox
	if dir == "" {
		return clean, nil
	}
	if looked, err = filepath.Abs(looked); err == nil && !named && isBelow(spec.Path, looked) {
		err = fmt.Errorf("%s belongs to this directory, and there is no sandbox here to try it in: name it, or say --sandbox full, if you trust it", spec.Path)
	}
	if err != nil {
		clean()
		return nil, err
	}
	spec.Dir = dir
	return clean, nil
}

func isBelow(path, dir string) bool {
	below, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(below)
}
