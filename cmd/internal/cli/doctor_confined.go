package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/workers"
)

// A caution is how doctor tries a runtime. A directory may be a stranger's: its .venv and .Rprofile are run
// in a sandbox in which they write nothing, or not at all, unless the person says otherwise.
type caution struct {
	sandbox *workers.Sandbox // nil where there is none, and for a person who wants none
	trusts  bool             // the person has chosen
	why     error            // there is no sandbox
}

func (c *choice) caution(ctx context.Context, chosen bool) caution {
	if chosen {
		return caution{sandbox: c.sandbox, trusts: true}
	}
	accept := workers.SandboxMechanism(c.confinement.accept)
	if _, err := sandboxHere(ctx, accept); err != nil {
		return caution{why: err}
	}
	return caution{sandbox: &workers.Sandbox{Level: workers.ReadOnly, Network: workers.NetworkNone, AcceptMechanism: accept, NoNotice: true}}
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

// serverArgs are further arguments of a server that doctor starts in a place, whatever the user's settings
// and the variables of a client say.
func (c caution) serverArgs(place string) []string {
	switch {
	case c.trusts:
		return nil
	case c.sandbox != nil:
		args := []string{"--sandbox", string(c.sandbox.Level), "--network", string(c.sandbox.Network)}
		if c.sandbox.AcceptMechanism != "" {
			args = append(args, "--sandbox-accept", string(c.sandbox.AcceptMechanism))
		}
		return args
	}
	return []string{"--dir", place}
}

// serverEnv is the environment of such a server. Code of a stranger's directory gets nothing of what the user's file
// lets sessions write.
func (c caution) serverEnv() []string {
	if c.trusts || c.sandbox == nil {
		return nil
	}
	return append(os.Environ(), settingsVariable+"="+noSettings)
}

// apply makes a spec one that doctor may start.
func (c caution) apply(spec *workers.Spec, lang language, asked choice) (clean func(), err error) {
	dir, clean, err := c.place()
	if err != nil {
		return nil, err
	}
	spec.Sandbox = c.sandbox
	if dir == "" {
		return clean, nil
	}
	looked, err := filepath.Abs(asked.dir)
	if err == nil && asked.executable(lang) == "" && (isBelow(spec.Path, looked) || lang.spec("", dir, asked.surroundings()).Path != spec.Path) {
		err = fmt.Errorf("%s belongs to this directory, and there is no sandbox here to try it in (%w): name it, or say --sandbox full, if you trust it", spec.Path, c.why)
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
