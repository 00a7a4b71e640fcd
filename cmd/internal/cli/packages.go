package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/cmd/internal/packages"
	"github.com/turnstone-repl/turnstone/workers"
)

// wanted is the value of --with, which can be given several times.
type wanted []string

func (w *wanted) String() string { return strings.Join(*w, " ") }

func (w *wanted) Set(name string) error {
	*w = append(*w, name)
	return nil
}

// makePackages has packages made for sessions of a spec.
func (l language) makePackages(ctx context.Context, spec workers.Spec, names []string, report func(packages.Progress)) (env []string, err error) {
	return l.packages.Make(ctx, packages.Request{
		Executable: spec.Path, Packages: names, Env: withoutSecrets(os.Environ()),
	}, report)
}

// withoutSecrets is an environment for programs that are not ours.
func withoutSecrets(environ []string) []string {
	return slices.DeleteFunc(environ, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(clientSecrets(), func(secret string) bool {
			prefix, many := strings.CutSuffix(secret, "*")
			return name == secret || many && strings.HasPrefix(name, prefix)
		})
	})
}

// with is the spec with packages, which are made now, unless that was done before.
func (l language) with(s streams, spec workers.Spec, names wanted) (workers.Spec, int, error) {
	if len(names) == 0 {
		return spec, statusDone, nil
	}
	canonical, err := l.packages.Canonical(names)
	if err != nil {
		return spec, statusUsage, misuse("--with: %v", err)
	}
	ctx, stop := catchSignals(os.Interrupt)
	defer stop()
	b := newBar(s.err, "preparing "+strings.Join(canonical, ", "))
	env, err := l.makePackages(ctx, spec, canonical, func(p packages.Progress) { b.show(p.Done, p.Total, p.Message) })
	b.close()
	if status, signalled := statusOf(ctx); signalled {
		return spec, status, nil
	}
	if err != nil {
		return spec, statusFailed, err
	}
	spec.Env = slices.Concat(spec.Env, env)
	return spec, statusDone, nil
}

// packagesFor is the daemon's job for what a client wants.
func packagesFor(p client.CreateParams, spec workers.Spec) (*daemon.Job, error) {
	l, err := languageNamed(p.Language)
	if err != nil {
		return nil, err
	}
	names, err := l.packages.Canonical(p.With)
	if err != nil {
		return nil, err
	}
	return &daemon.Job{
		Key:   strings.Join(slices.Concat([]string{"packages", l.name, spec.Path}, names), "\x00"),
		Title: "preparing " + strings.Join(names, ", "),
		Run: func(ctx context.Context, report func(daemon.Progress)) (func(*workers.Spec), error) {
			env, err := l.makePackages(ctx, spec, names, func(p packages.Progress) { report(daemon.Progress(p)) })
			return func(s *workers.Spec) { s.Env = slices.Concat(s.Env, env) }, err
		},
	}, nil
}

// createToken is the token of the only session that a command creates.
var createToken = json.RawMessage(`"create"`)

// create opens a session of the daemon's, and shows how far its packages are until
// done is called. A session that is there already must have them.
func create(ctx context.Context, s streams, c *client.Client, p client.CreateParams) (done func(), err error) {
	b := newBar(s.err, "preparing "+strings.Join(p.With, ", "))
	if len(p.With) > 0 {
		p.Token = createToken
		c.OnProgress(func(h client.HostProgress) {
			if h.Total == h.Progress {
				b.hide()
			} else {
				b.show(h.Progress, h.Total, h.Message)
			}
		})
	}
	_, err = c.Create(ctx, p)
	if client.IsKind(err, client.KindExists) {
		var session client.Session
		if session, err = c.Get(ctx, p.Name); err == nil {
			err = hasPackages(session, p.With)
		}
	}
	if err != nil {
		b.close()
		return func() {}, err
	}
	return b.close, nil
}

// hasPackages says what a session has not that is wanted.
func hasPackages(session client.Session, with []string) error {
	l, err := languageNamed(session.Language)
	if err != nil {
		return err
	}
	has, err := l.packages.Canonical(session.With)
	if err != nil {
		return err
	}
	wants, err := l.packages.Canonical(with)
	if err != nil {
		return misuse("--with: %v", err)
	}
	for _, name := range wants {
		if !slices.Contains(has, name) {
			return fmt.Errorf("%s is there already, without %s: use another name, or repl close %s first", session.Name, name, session.Name)
		}
	}
	return nil
}
