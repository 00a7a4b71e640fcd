package diagnose

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/workers"
)

// A probePolicy says how doctor may test a runtime. The current directory may come from somebody
// else. So its .venv and .Rprofile run in a read-only sandbox, or do not run, unless the user
// chooses otherwise.
type probePolicy struct {
	sandbox   *sandbox.Policy // nil without a sandbox, or if the user wants none
	trusted   bool            // the user chose the sandbox
	noSandbox error           // why a sandbox is not available
}

// selectProbePolicy returns how doctor starts programs: in the sandbox that the user chose, or in a
// strict one if there is any.
func selectProbePolicy(ctx context.Context, r *cmdflags.RuntimeFlags, chosen bool) probePolicy {
	if chosen {
		return probePolicy{sandbox: r.Sandbox, trusted: true}
	}
	accept := sandbox.Mechanism(r.SandboxFlags.AcceptMechanism)
	if _, err := cmdflags.TrySandboxHere(ctx, accept); err != nil {
		return probePolicy{noSandbox: err}
	}
	return probePolicy{sandbox: &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone, AcceptMechanism: accept, NoNotice: true}}
}

// startDir returns a directory in which to start a program without a sandbox: "" for the current
// one, or a new one that clean removes.
func (p probePolicy) startDir() (dir string, clean func(), err error) {
	if p.trusted || p.sandbox != nil {
		return "", func() {}, nil
	}
	dir, err = os.MkdirTemp("", "repl-doctor-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// serverArgs returns further arguments for a server that doctor starts in dir, regardless of the
// user's settings and the client's variables.
func (p probePolicy) serverArgs(dir string) []string {
	switch {
	case p.trusted:
		return nil
	case p.sandbox != nil:
		args := []string{"--sandbox", string(p.sandbox.Level), "--network", string(p.sandbox.Network)}
		if p.sandbox.AcceptMechanism != "" {
			args = append(args, "--sandbox-fallback", string(p.sandbox.AcceptMechanism))
		}
		return args
	}
	return []string{"--dir", dir}
}

// serverEnv returns the environment of the server that is tested; nil means that of this process.
// Code of an untrusted directory must not get the rights that the user's sandbox.toml gives to
// sessions.
func (p probePolicy) serverEnv() []string {
	if p.trusted || p.sandbox == nil {
		return nil
	}
	return append(os.Environ(), cmdflags.SettingsEnv+"="+cmdflags.NoSettings)
}

// restrictSpec changes a spec so that doctor may start it.
func (p probePolicy) restrictSpec(spec *workers.Spec, lang languages.Language, flags cmdflags.RuntimeFlags) (clean func(), err error) {
	dir, clean, err := p.startDir()
	if err != nil {
		return nil, err
	}
	spec.Sandbox = p.sandbox
	if dir == "" {
		return clean, nil
	}
	startDir, err := filepath.Abs(flags.Dir)
	if err == nil && flags.InterpreterFor(lang) == "" && (paths.Contains(startDir, filepath.Clean(spec.Path)) || lang.NewSpec("", dir, flags.RuntimeSettings()).Path != spec.Path) {
		err = fmt.Errorf("%s belongs to this directory, and no sandbox is available to test it in (%w); if you trust it, name it, or use --sandbox full", spec.Path, p.noSandbox)
	}
	if err != nil {
		clean()
		return nil, err
	}
	spec.Dir = dir
	return clean, nil
}

func examineSandbox(ctx context.Context) systemFeature {
	f := systemFeature{Name: "sandbox"}
	if _, err := cmdflags.TrySandboxHere(ctx, ""); err != nil {
		f.Detail = err.Error()
		if lines, err := cmdflags.TrySandboxHere(ctx, cmdflags.WeakerMechanism); err == nil && len(lines) > 0 && cmdflags.WeakerMechanism != "" {
			f.Detail += "; with --sandbox-fallback " + string(cmdflags.WeakerMechanism) + ": " + lines[0]
		}
		return f
	}
	f.Available, f.Detail = true, "sessions can be sandboxed, as by default in repl mcp"
	return f
}
