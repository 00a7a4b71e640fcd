package cmdflags

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/cmd/internal/pkginstall"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A PackageList is the value of --with, which names a package and may be repeated.
type PackageList []string

func (l *PackageList) String() string { return strings.Join(*l, " ") }

func (l *PackageList) Set(name string) error {
	*l = append(*l, name)
	return nil
}

// packageTimeout is a little longer than the installer's own limit, because the installer's error
// names the step that did not finish.
const packageTimeout = pkginstall.DefaultTimeout + time.Minute

// WithPreparation returns a spec for sessions that have these packages, given by canonical names.
// Sessions use the sandbox of the spec.
func WithPreparation(l languages.Language, spec workers.Spec, names []string) workers.Spec {
	if len(names) == 0 {
		return spec
	}
	sessionDirs, err := sessionWritableDirs(spec)
	if err != nil {
		spec.Err = errors.Join(spec.Err, err)
		return spec
	}
	spec.Preparations = append(slices.Clip(spec.Preparations), workers.Preparation{
		Key:     strings.Join(slices.Concat([]string{"packages", l.Name, spec.Path}, names, sessionDirs), "\x00"),
		Name:    strings.Join(names, ", "),
		Timeout: packageTimeout,
		Run: func(ctx context.Context, report func(workers.PreparationProgress)) (workers.PreparationResult, error) {
			request := pkginstall.InstallRequest{Executable: spec.Path, Packages: names, SessionDirs: sessionDirs, Env: withoutSecrets(os.Environ())}
			env, err := l.Packages.Make(ctx, request, func(p pkginstall.InstallProgress) { report(workers.PreparationProgress(p)) })
			return workers.PreparationResult{Env: env}, err
		},
	})
	return spec
}

// sessionWritableDirs returns the directories that sandboxed sessions can write, or that came with
// their project. Programs outside the sandbox run nothing from them. Sessions do not write to a
// home directory.
func sessionWritableDirs(spec workers.Spec) (dirs []string, err error) {
	if !spec.Sandbox.Confines() {
		return nil, nil
	}
	dirs = slices.Clone(spec.Sandbox.Writable)
	workspace, err := filepath.Abs(cmp.Or(spec.Sandbox.Workspace, spec.Dir))
	if err != nil {
		return nil, err
	}
	workspace = paths.RealOrSame(workspace)
	always, err := UserConfigFile().List(workspace)
	if err != nil {
		return nil, err
	}
	for _, g := range always {
		if g.Write != "" {
			dirs = append(dirs, g.Write)
		}
	}
	for _, dir := range []string{spec.Dir, workspace} {
		absolute, err := filepath.Abs(dir)
		project, e := projectRoot(dir)
		if err == nil && e == nil {
			dirs = append(dirs, absolute, project)
		}
	}
	home, _ := os.UserHomeDir()
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return dir == filepath.Dir(dir) || paths.Contains(filepath.Clean(dir), filepath.Clean(home))
	}), nil
}

// withoutSecrets removes the variables of ClientSecrets from an environment for third-party programs.
func withoutSecrets(environ []string) []string {
	return slices.DeleteFunc(environ, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(ClientSecrets(), func(secret string) bool {
			prefix, many := strings.CutSuffix(secret, "*")
			return name == secret || many && strings.HasPrefix(name, prefix)
		})
	})
}

// AwaitPrepared shows the progress of a session's preparation until it is over or ctx ends.
func AwaitPrepared(ctx context.Context, w io.Writer, s session.Session, now session.Info) error {
	b := cmdkit.NewProgressBar(w)
	defer b.Close()
	return session.FollowPreparation(ctx, s, now, func(p timeline.Preparation) {
		if p.Message != "" { // without a message, the preparation may already be done
			b.SetProgress("preparing "+timeline.Preparation{Name: p.Name}.Text(), p.Done, p.Total, p.Message)
		}
	})
}

// CanonicalNames returns the canonical names of the packages. It returns a usage error unless
// exactly one language is offered, because the names depend on the language.
func (l PackageList) CanonicalNames(offered []languages.Language) ([]string, error) {
	if len(l) == 0 {
		return nil, nil
	}
	if len(offered) != 1 {
		return nil, cmdkit.UsageErrorf("--with %s: name the language of the packages with --lang", l[0])
	}
	names, err := offered[0].Packages.Canonical(l)
	if err != nil {
		return nil, cmdkit.UsageErrorf("--with: %v", err)
	}
	return names, nil
}

// ClientSecrets returns variables that only the client itself needs, but that it passes on to
// servers. Code that has them can act as the client. The user's own keys, such as OPENAI_API_KEY,
// stay, because the code may need them. docs/agents.md names the source of each variable.
func ClientSecrets() []string {
	return []string{
		"CLAUDE_CODE_MESSAGING_*",
		"CLAUDE_CODE_OAUTH_*",
		"CLAUDE_CODE_SESSION_ACCESS_TOKEN",
		"GEMINI_CLI_IDE_AUTH_TOKEN",
		"CODEX_API_KEY",
		"CODEX_ACCESS_TOKEN",
		"OPENCODE_SERVER_PASSWORD",
	}
}
