package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// compileTimeout bounds the compilation of a worker's code, which usually takes 0.1 s.
	compileTimeout = 30 * time.Second
	// maxCompiledBytes bounds the compiled code, in bytes.
	maxCompiledBytes = 4 << 20
)

// cacheCompiledCode compiles the code of a sandboxed worker for later workers, once this worker is
// ready. It does nothing if the compiled code exists. It stops when the worker ends.
func (s *Session) cacheCompiledCode(w *worker, spec *workers.Spec) {
	compilation := spec.Compilation
	if compilation == nil || !spec.Sandbox.Confines() || w.mechanism != "" || compilation.HasResult() {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		select {
		case <-w.done:
		case <-ctx.Done():
		}
		stop()
	}()
	if !s.waitUntilReady(ctx, w) {
		return
	}
	_, _, err := s.preparations.awaitPreparation(ctx, workers.Preparation{
		Key:     "compile\x00" + compilation.Key,
		Timeout: compileTimeout,
		Run: func(ctx context.Context, _ func(workers.PreparationProgress)) (workers.PreparationResult, error) {
			if compilation.HasResult() {
				return workers.PreparationResult{}, nil
			}
			return workers.PreparationResult{}, s.runCompiler(ctx, spec)
		},
	}, compileTimeout, func(workers.PreparationProgress) {})
	if err != nil && ctx.Err() == nil {
		w.log.Info("compiled code not saved", "err", err)
	}
}

// waitUntilReady waits until a worker is ready. It returns false if ctx ends first.
func (s *Session) waitUntilReady(ctx context.Context, w *worker) bool {
	for {
		s.mu.Lock()
		ready := s.worker == w && slices.Contains([]phase{phaseIdle, phaseSending, phaseRunning}, s.m.phase)
		changed := s.changedLocked()
		s.mu.Unlock()
		if ready {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// runCompiler runs the compiler in its own directory and in a sandbox that contains nothing of the
// session.
func (s *Session) runCompiler(ctx context.Context, spec *workers.Spec) error {
	state := filepath.Join(s.dir, "compile") // a session that waits for this compilation retries later
	defer func() { _ = removeTree(state) }()
	files := filepath.Join(state, "files")
	if err := writeFiles(files, spec.Files); err != nil {
		return err
	}
	compilation := spec.Compilation
	box, err := newConfinement(&workers.Spec{Path: compilation.Path, Dir: files, Sandbox: &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone, NoNotice: true}}, &s.o, "", state, files)
	if err != nil {
		return err
	}
	defer box.release()
	p, err := launch.Start(&launch.StartConfig{Path: compilation.Path, Args: expandFilesDir(compilation.Args, files), Env: []string{"PATH=/usr/bin:/bin"}, Dir: files, Sandbox: box.sandbox, Timeout: s.o.StartTimeout, Context: ctx})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, p.Kill)()
	for range p.Notices() { // closed once all its processes have exited
	}
	if err := p.Close(); err != nil || ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	name, code, err := findNewFile(files, spec.Files)
	if err != nil {
		return err
	}
	return compilation.SaveResult(name, code)
}

// findNewFile returns the only file of a directory that is not in known.
func findNewFile(dir string, known map[string][]byte) (name string, content []byte, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", nil, err
	}
	defer root.Close()
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if _, ok := known[e.Name()]; ok {
			continue
		}
		if name != "" || !e.Type().IsRegular() {
			return "", nil, fmt.Errorf("unexpected output file %q", e.Name())
		}
		name = e.Name()
	}
	if err != nil || name == "" {
		return "", nil, errors.Join(err, errors.New("the compiler wrote no file"))
	}
	f, err := root.Open(name)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	content, err = io.ReadAll(io.LimitReader(f, maxCompiledBytes+1))
	if err == nil && len(content) > maxCompiledBytes {
		err = fmt.Errorf("%s is larger than %s", name, workers.FormatBytes(maxCompiledBytes))
	}
	return name, content, err
}
