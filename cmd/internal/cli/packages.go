package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/cmd/internal/packages"
	"github.com/turnstone-repl/turnstone/session"
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

// canonical is the packages as everybody would write them, for sessions of the only
// language that is offered.
func (w wanted) canonical(offered []language) ([]string, error) {
	if len(w) == 0 {
		return nil, nil
	}
	if len(offered) != 1 {
		return nil, misuse("--with %s: packages are of one language; say which with --lang", w[0])
	}
	names, err := offered[0].packages.Canonical(w)
	if err != nil {
		return nil, misuse("--with: %v", err)
	}
	return names, nil
}

// A preparer makes the same packages for every session of a server, whose clients
// may ask at once: each runtime's are one job, which ends when nobody waits for it.
type preparer struct {
	language language
	names    []string

	mu   sync.Mutex
	jobs map[string]*preparing // guarded by mu: those that run, by the path of the runtime
}

// preparing is packages that are being made for one runtime.
type preparing struct {
	stop    context.CancelFunc
	line    string               // guarded by preparer.mu: what the tool said last
	waiting map[int]func(string) // guarded by preparer.mu: who is told
	joined  int                  // guarded by preparer.mu: how many ever waited

	done chan struct{} // closed when the next two are set
	env  []string
	err  error
}

func newPreparer(l language, names []string) *preparer {
	return &preparer{language: l, names: names, jobs: make(map[string]*preparing)}
}

// prepare is a mcpserver.Preparer. When it returns because ctx ended, and nobody
// else waits, what it has started has ended, too.
func (p *preparer) prepare(ctx context.Context, _ string, spec workers.Spec, report func(string)) (workers.Spec, error) {
	p.mu.Lock()
	j := p.jobs[spec.Path]
	if j == nil {
		j = p.beginLocked(spec)
	}
	me := j.joined
	j.joined++
	j.waiting[me] = report
	report(j.line)
	p.mu.Unlock()
	defer p.leave(j, spec.Path, me)
	select {
	case <-j.done:
		spec.Env = slices.Concat(spec.Env, j.env)
		return spec, j.err
	case <-ctx.Done():
		return spec, ctx.Err()
	}
}

func (p *preparer) beginLocked(spec workers.Spec) *preparing {
	ctx, stop := context.WithCancel(context.Background())
	j := &preparing{
		stop: stop, done: make(chan struct{}), waiting: make(map[int]func(string)),
		line: strings.Join(p.names, ", "),
	}
	p.jobs[spec.Path] = j
	go func() {
		defer close(j.done)
		j.env, j.err = p.language.makePackages(ctx, spec, p.names, func(said packages.Progress) {
			p.mu.Lock()
			defer p.mu.Unlock()
			j.line = strings.Join(p.names, ", ") + ": " + said.Message
			for _, tell := range j.waiting {
				tell(j.line)
			}
		})
	}()
	return j
}

// leave ends a wait; the last one ends the job, and waits for its end.
func (p *preparer) leave(j *preparing, path string, me int) {
	p.mu.Lock()
	delete(j.waiting, me)
	last := len(j.waiting) == 0
	if last && p.jobs[path] == j { // who comes now must not wait for what is given up
		delete(p.jobs, path)
	}
	p.mu.Unlock()
	if last {
		j.stop()
		<-j.done
	}
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

// create opens a session of the daemon's, says that it is a new one, and shows how far its packages are until
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
	made, err := c.Create(ctx, p)
	if err == nil { // who has used one of that name before must not think that it is that
		fmt.Fprintf(s.err, "repl: %s is a new session\n", p.Name)
	}
	if session.KindOf(err) == session.KindExists {
		var session session.Info
		if session, err = c.Get(ctx, p.Name); err == nil {
			err = hasPackages(session, p.With)
		}
	}
	if err != nil {
		b.close()
		return func() {}, err
	}
	if made.Notice != "" {
		b.hide()
		fmt.Fprintf(s.err, "repl: %s\n", made.Notice)
	}
	if made.Lost != "" {
		b.hide()
		fmt.Fprintf(s.err, "repl: %s is new: the session before was lost when its daemon was killed; its output is in %s, and %s %s writes what was run in it\n", made.Name, made.Lost, recoverCommand, made.Name)
	}
	return b.close, nil
}

// hasPackages says what a session has not that is wanted.
func hasPackages(session session.Info, with []string) error {
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
