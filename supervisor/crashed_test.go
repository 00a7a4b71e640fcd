package supervisor_test

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// leaveCrashedSession leaves in dir what a program leaves that is killed while it has a session.
func leaveCrashedSession(t *testing.T, dir, command string) {
	t.Helper()
	cmd := exec.Command(executablePath())
	cmd.Env = append(os.Environ(), hostEnv+"="+dir, recoverCommandEnv+"="+command)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n') // the worker's process: the turn is over
	if err != nil {
		t.Fatalf("%q, %v", said, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

func readCrashedSessions(t *testing.T, dir string) []supervisor.CrashedSession {
	t.Helper()
	lost, err := supervisor.CrashedSessions(dir)
	if err != nil {
		t.Fatal(err)
	}
	return lost
}

// readInputs returns the input of each turn of a lost session.
func readInputs(l supervisor.CrashedSession) (inputs []string) {
	for e := range l.Events() {
		if b, ok := e.Body.(timeline.TurnStarted); ok {
			inputs = append(inputs, string(b.Input))
		}
	}
	return inputs
}

func TestCrashedSession(t *testing.T) {
	t.Parallel()

	t.Run("keeps the transcript and tells the next session", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		leaveCrashedSession(t, dir, "program recover")
		options := &supervisor.Options{Dir: dir, RecoverCommand: "program recover"}
		sup, err := supervisor.New(options)
		if err != nil {
			t.Fatal(err)
		}
		defer sup.Close()
		lost := readCrashedSessions(t, dir)
		if len(lost) != 1 || lost[0].Name != "main" || lost[0].Worker == "" || time.Since(lost[0].Found) > testTimeout || !slices.Equal(readInputs(lost[0]), []string{"fork\nfork\nprint up"}) {
			t.Fatalf("got %+v", lost)
		}
		inside, err := os.ReadDir(filepath.Dir(lost[0].OutputPath))
		if err != nil || len(inside) != 3 {
			t.Errorf("more is kept than is needed: %v, %v", inside, err)
		}
		if output, err := os.ReadFile(lost[0].OutputPath); err != nil || !strings.Contains(string(output), "up\n") {
			t.Errorf("the output: %q, %v", output, err)
		}
		said := func(name, dir string, inputs ...string) string {
			spec := fakeSpec(nil)
			spec.Dir = dir
			s, err := sup.Open(t.Context(), name, spec)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(t.Context())
			waitUntilReady(t, s)
			if got := sessionInfo(s).CrashedTranscript; got != "" && got != lost[0].OutputPath {
				t.Errorf("its output is in %q", got)
			}
			for _, input := range inputs {
				runTurn(t, s, input)
			}
			return noticeText(s.Log().EventsSince(0))
		}
		if got := said("other", "") + said("main", dir); got != "" {
			t.Errorf("a session that has nothing to do with it says %q", got)
		}
		// Nobody has used a session that was kept warm: what ran in it was silent.
		warm, err := sup.Open(t.Context(), "warm", fakeSpec(nil))
		if err != nil {
			t.Fatal(err)
		}
		turn, err := warm.SubmitSilent(t.Context(), "print ready")
		if err == nil {
			_, err = warm.Wait(t.Context(), turn, nil)
		}
		if err = errors.Join(err, sup.Rename(warm, "main")); err != nil {
			t.Fatal(err)
		}
		if got := noticeText(warm.Log().EventsSince(0)); !strings.Contains(got, "program recover main") {
			t.Errorf("a warm one says %q", got)
		}
		if err := warm.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		// A client that only looks opens a session, too, and shows nobody what it says.
		for _, inputs := range [][]string{nil, {"print read"}} {
			if got := said("main", "", inputs...); !strings.Contains(got, `"program recover main" writes`) || !strings.Contains(got, lost[0].OutputPath) {
				t.Errorf("the next one, with inputs %q, says %q", inputs, got)
			}
		}
		if got := said("main", ""); got != "" {
			t.Errorf("it is said twice: %q", got)
		}
		// A session that was closed leaves nothing.
		if left := readCrashedSessions(t, dir); len(left) != 1 || left[0].ID != lost[0].ID {
			t.Errorf("got %+v", left)
		}
	})

	t.Run("reads a truncated file and ignores a link", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		leaveCrashedSession(t, dir, "recover")
		left, err := filepath.Glob(filepath.Join(dir, "main-*"))
		if err != nil || len(left) != 1 {
			t.Fatalf("got %q, %v", left, err)
		}
		events := filepath.Join(left[0], timeline.EventsName)
		data, err := os.ReadFile(events)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(events, append(data, 0, 0, 1, 0, 2, 3), 0o600); err != nil { // a record that is not whole
			t.Fatal(err)
		}
		lost := readCrashedSessions(t, dir)
		if len(lost) != 1 || len(readInputs(lost[0])) != 1 {
			t.Fatalf("got %+v", lost)
		}
		// A link is nothing that we have made.
		kept := filepath.Join(filepath.Dir(lost[0].OutputPath), timeline.EventsName)
		elsewhere := filepath.Join(t.TempDir(), "precious")
		if err := os.Rename(kept, elsewhere); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, kept); err != nil {
			t.Skip(err)
		}
		if lost := readCrashedSessions(t, dir); len(lost) != 0 {
			t.Errorf("got %+v", lost)
		}
		if _, err := os.Stat(elsewhere); err != nil {
			t.Error(err)
		}
	})

	t.Run("keeps 32 transcripts for a day", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		leaveCrashedSession(t, dir, "recover")
		lost := readCrashedSessions(t, dir)
		if len(lost) != 1 {
			t.Fatalf("got %+v", lost)
		}
		from := filepath.Dir(lost[0].OutputPath)
		for i := range 40 {
			to := filepath.Join(dir, "copy-"+string(rune('0'+i/10))+string(rune('0'+i%10))+strings.TrimPrefix(filepath.Base(from), lost[0].ID))
			if err := os.CopyFS(to, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			at := time.Now().Add(-time.Duration(i+1) * time.Minute)
			if err := os.Chtimes(filepath.Join(to, "info"), at, at); err != nil {
				t.Fatal(err)
			}
		}
		if lost = readCrashedSessions(t, dir); len(lost) != 32 || lost[31].ID != "copy-30" {
			t.Errorf("%d are kept, the oldest %q", len(lost), lost[len(lost)-1].ID)
		}
		old := time.Now().Add(-25 * time.Hour)
		if err := os.Chtimes(filepath.Join(from, "info"), old, old); err != nil {
			t.Fatal(err)
		}
		if lost = readCrashedSessions(t, dir); len(lost) != 31 {
			t.Errorf("%d are kept after a day", len(lost))
		}
		if _, err := os.Stat(from); !os.IsNotExist(err) {
			t.Errorf("it is still there: %v", err)
		}
	})

	// A session is removed if nobody asked to keep it, or if it ran nothing.
	t.Run("keeps nothing without a recover command", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		leaveCrashedSession(t, dir, "")
		if lost := readCrashedSessions(t, dir); len(lost) != 0 {
			t.Errorf("got %+v", lost)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left: %v, %v", left, err)
		}
		if lost, err := supervisor.CrashedSessions(filepath.Join(dir, "nowhere")); lost != nil || err != nil {
			t.Errorf("got %v, %v", lost, err)
		}
	})

	// Programs that start at once find it once. Each keeps its session until all were asked: one that ends
	// without a turn leaves the loss to the next.
	t.Run("is reported once when many programs start", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		leaveCrashedSession(t, dir, "recover")
		found, asked := make(chan string), make(chan struct{})
		const programs = 8
		var ending sync.WaitGroup
		for range programs {
			ending.Go(func() {
				sup, err := supervisor.New(&supervisor.Options{Dir: dir, RecoverCommand: "recover"})
				if err != nil {
					found <- err.Error()
					return
				}
				s, err := sup.Open(t.Context(), "main", fakeSpec(nil))
				if err != nil {
					found <- err.Error()
					return
				}
				found <- sessionInfo(s).CrashedTranscript
				<-asked
				_ = sup.Close()
			})
		}
		var told []string
		for range programs {
			if path := <-found; path != "" {
				told = append(told, path)
			}
		}
		close(asked)
		ending.Wait()
		if lost := readCrashedSessions(t, dir); len(told) != 1 || len(lost) != 1 || lost[0].OutputPath != told[0] {
			t.Errorf("told %q, kept %+v", told, lost)
		}
	})
}

func TestClosedSession(t *testing.T) {
	t.Parallel()

	t.Run("leaves nothing to those who look meanwhile", func(t *testing.T) {
		t.Parallel()
		options := &supervisor.Options{Dir: t.TempDir(), RecoverCommand: "recover"}
		sup, err := supervisor.New(options)
		if err != nil {
			t.Fatal(err)
		}
		defer sup.Close()
		ctx, stop := context.WithCancel(t.Context())
		var looking sync.WaitGroup
		for range 2 {
			looking.Go(func() {
				for ctx.Err() == nil {
					if lost, err := supervisor.CrashedSessions(options.Dir); err != nil || len(lost) > 0 {
						t.Errorf("got %+v, %v", lost, err)
						return
					}
				}
			})
		}
		for range 30 {
			s, err := sup.Open(t.Context(), "main", fakeSpec(nil))
			if err != nil {
				t.Fatal(err)
			}
			runTurn(t, s, "print used")
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		looking.Wait()
		if left, err := os.ReadDir(options.Dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})

	t.Run("leaves nothing when its program is killed while it closes", func(t *testing.T) {
		t.Parallel()
		options := &supervisor.Options{Dir: t.TempDir(), RecoverCommand: "recover", StopGrace: testTimeout}
		sup, err := supervisor.New(options)
		if err != nil {
			t.Fatal(err)
		}
		s, err := sup.Open(t.Context(), "main", fakeSpec(nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Submit(t.Context(), "ignore"); err != nil {
			t.Fatal(err)
		}
		waitForEvent(t, s, 0, func(e timeline.Event) bool {
			b, ok := e.Body.(timeline.Text)
			return ok && strings.Contains(string(b.Data), "ignoring")
		})
		closed := make(chan error)
		go func() { closed <- sup.Close() }()
		for s.State() != session.StateStopping {
			runtime.Gosched()
		}
		s.Log().Sync()
		left := t.TempDir() // as a kill would leave it
		copyReadable(t, left, options.Dir)
		if err := os.Chmod(left, 0o700); err != nil {
			t.Fatal(err)
		}
		worker, err := os.FindProcess(sessionInfo(s).PID)
		if err == nil {
			err = worker.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if lost := readCrashedSessions(t, left); len(lost) > 0 {
			t.Errorf("got %+v", lost)
		}
		if still, err := os.ReadDir(left); err != nil || len(still) > 0 {
			t.Errorf("left: %v, %v", still, err)
		}
	})

	t.Run("is not kept from the directory that is being removed", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		leaveCrashedSession(t, dir, "recover")
		left, err := filepath.Glob(filepath.Join(dir, "main-*"))
		if err != nil || len(left) != 1 {
			t.Fatalf("got %q, %v", left, err)
		}
		if err := os.Rename(left[0], left[0]+".discarded"); err != nil {
			t.Fatal(err)
		}
		if lost := readCrashedSessions(t, dir); len(lost) > 0 {
			t.Errorf("got %+v", lost)
		}
		if _, err := os.Lstat(left[0] + ".discarded"); !os.IsNotExist(err) {
			t.Errorf("it is still there: %v", err)
		}
	})
}

// copyReadable copies a directory, without what its user may not read, which a sandbox has in it.
func copyReadable(t *testing.T, to, from string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return fs.SkipDir
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
