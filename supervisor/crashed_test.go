package supervisor_test

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// leaveCrashedSession leaves a session in dir whose program was killed.
func leaveCrashedSession(t *testing.T, dir, command string) {
	t.Helper()
	cmd := exec.Command(testexec.OwnPath())
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
	line, err := bufio.NewReader(out).ReadString('\n') // the worker's PID; the turn is over then
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

func readCrashedSessions(t *testing.T, dir string) []supervisor.CrashedSession {
	t.Helper()
	crashed, err := supervisor.CrashedSessions(dir)
	if err != nil {
		t.Fatal(err)
	}
	return crashed
}

// readInputs returns the input of each turn of a crashed session.
func readInputs(c supervisor.CrashedSession) (inputs []string) {
	for e := range c.Events() {
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
		crashed := readCrashedSessions(t, dir)
		if len(crashed) != 1 || crashed[0].Name != "main" || crashed[0].Worker == "" || time.Since(crashed[0].Found) > testTimeout || !slices.Equal(readInputs(crashed[0]), []string{"fork\nfork\nprint up"}) {
			t.Fatalf("got %+v", crashed)
		}
		saved, err := os.ReadDir(filepath.Dir(crashed[0].OutputPath))
		if err != nil || len(saved) != 3 {
			t.Errorf("saved too much: %v, %v", saved, err)
		}
		if output, err := os.ReadFile(crashed[0].OutputPath); err != nil || !strings.Contains(string(output), "up\n") {
			t.Errorf("got output %q, %v", output, err)
		}
		noticesOf := func(name, dir string, inputs ...string) string {
			spec := fakeSpec(nil)
			spec.Dir = dir
			s, err := sup.Open(t.Context(), name, spec)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(t.Context())
			waitUntilReady(t, s)
			if got := sessionInfo(s).CrashedTranscript; got != "" && got != crashed[0].OutputPath {
				t.Errorf("the notice names the output file %q", got)
			}
			for _, input := range inputs {
				runTurn(t, s, input)
			}
			return noticeText(s.Log().EventsSince(0))
		}
		if got := noticesOf("other", "") + noticesOf("main", dir); got != "" {
			t.Errorf("an unrelated session reports %q", got)
		}
		// A warm session has run only silent turns, so no user has used it.
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
			t.Errorf("a warm session reports %q", got)
		}
		if err := warm.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		// A client that only inspects sessions also opens one, but shows its notices to no user.
		for _, inputs := range [][]string{nil, {"print read"}} {
			if got := noticesOf("main", "", inputs...); !strings.Contains(got, `"program recover main" writes`) || !strings.Contains(got, crashed[0].OutputPath) {
				t.Errorf("the next session, with inputs %q, reports %q", inputs, got)
			}
		}
		if got := noticesOf("main", ""); got != "" {
			t.Errorf("reported twice: %q", got)
		}
		// A closed session leaves nothing.
		if left := readCrashedSessions(t, dir); len(left) != 1 || left[0].ID != crashed[0].ID {
			t.Errorf("got %+v", left)
		}
	})

	t.Run("in the format of another version is kept and not read", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		leaveCrashedSession(t, dir, "program recover")
		locks, err := filepath.Glob(filepath.Join(dir, "main-*", "lock"))
		if err != nil || len(locks) != 1 {
			t.Fatalf("%q, %v", locks, err)
		}
		text, err := os.ReadFile(locks[0])
		if err != nil || !strings.Contains(string(text), `"format":1`) {
			t.Fatalf("%q, %v", text, err)
		}
		if err := os.WriteFile(locks[0], []byte(strings.Replace(string(text), `"format":1`, `"format":2`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(locks[0]), timeline.EventsName), []byte("a new format"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			crashed := readCrashedSessions(t, dir)
			if len(crashed) != 1 || crashed[0].Name != "main" || crashed[0].Format != 2 || !crashed[0].Unreadable || len(readInputs(crashed[0])) != 0 {
				t.Fatalf("got %+v", crashed)
			}
			if kept, err := os.ReadFile(filepath.Join(filepath.Dir(crashed[0].OutputPath), timeline.EventsName)); err != nil || string(kept) != "a new format" {
				t.Errorf("its file: %q, %v", kept, err)
			}
		}
		sup, err := supervisor.New(&supervisor.Options{Dir: dir, RecoverCommand: "program recover"})
		if err != nil {
			t.Fatal(err)
		}
		defer sup.Close()
		s, err := sup.Open(t.Context(), "main", fakeSpec(nil))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		waitUntilReady(t, s)
		if got := sessionInfo(s).CrashedTranscript; got != "" {
			t.Errorf("the next session offers %q", got)
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
		if err := os.WriteFile(events, append(data, 0, 0, 1, 0, 2, 3), 0o600); err != nil { // an incomplete record
			t.Fatal(err)
		}
		crashed := readCrashedSessions(t, dir)
		if len(crashed) != 1 || len(readInputs(crashed[0])) != 1 {
			t.Fatalf("got %+v", crashed)
		}
		// This package never makes links.
		eventsPath := filepath.Join(filepath.Dir(crashed[0].OutputPath), timeline.EventsName)
		elsewhere := filepath.Join(t.TempDir(), "precious")
		if err := os.Rename(eventsPath, elsewhere); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(elsewhere, eventsPath); err != nil {
			t.Skip(err)
		}
		if crashed := readCrashedSessions(t, dir); len(crashed) != 0 {
			t.Errorf("got %+v", crashed)
		}
		if _, err := os.Stat(elsewhere); err != nil {
			t.Error(err)
		}
	})

	t.Run("keeps 32 transcripts for a day", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		leaveCrashedSession(t, dir, "recover")
		crashed := readCrashedSessions(t, dir)
		if len(crashed) != 1 {
			t.Fatalf("got %+v", crashed)
		}
		from := filepath.Dir(crashed[0].OutputPath)
		for i := range 40 {
			to := filepath.Join(dir, "copy-"+string(rune('0'+i/10))+string(rune('0'+i%10))+strings.TrimPrefix(filepath.Base(from), crashed[0].ID))
			if err := os.CopyFS(to, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			at := time.Now().Add(-time.Duration(i+1) * time.Minute)
			if err := os.Chtimes(filepath.Join(to, "info"), at, at); err != nil {
				t.Fatal(err)
			}
		}
		if crashed = readCrashedSessions(t, dir); len(crashed) != 32 || crashed[31].ID != "copy-30" {
			t.Errorf("saved %d, the oldest %q", len(crashed), crashed[len(crashed)-1].ID)
		}
		old := time.Now().Add(-25 * time.Hour)
		if err := os.Chtimes(filepath.Join(from, "info"), old, old); err != nil {
			t.Fatal(err)
		}
		if crashed = readCrashedSessions(t, dir); len(crashed) != 31 {
			t.Errorf("saved %d after a day", len(crashed))
		}
		if _, err := os.Stat(from); !os.IsNotExist(err) {
			t.Errorf("still exists: %v", err)
		}
	})

	// A session is removed if there is no recover command or if it ran nothing.
	t.Run("keeps nothing without a recover command", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		leaveCrashedSession(t, dir, "")
		if crashed := readCrashedSessions(t, dir); len(crashed) != 0 {
			t.Errorf("got %+v", crashed)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("files left: %v, %v", left, err)
		}
		if crashed, err := supervisor.CrashedSessions(filepath.Join(dir, "nowhere")); crashed != nil || err != nil {
			t.Errorf("got %v, %v", crashed, err)
		}
	})

	// If programs start at the same time, only one of them reports the crash. Each keeps its
	// session open until all have been asked: a session that closes without a turn leaves the
	// report to the next one.
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
		var reported []string
		for range programs {
			if path := <-found; path != "" {
				reported = append(reported, path)
			}
		}
		close(asked)
		ending.Wait()
		if crashed := readCrashedSessions(t, dir); len(reported) != 1 || len(crashed) != 1 || crashed[0].OutputPath != reported[0] {
			t.Errorf("reported %q, saved %+v", reported, crashed)
		}
	})
}

func TestClosedSession(t *testing.T) {
	t.Parallel()

	t.Run("leaves nothing to programs that look at the same time", func(t *testing.T) {
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
					if crashed, err := supervisor.CrashedSessions(options.Dir); err != nil || len(crashed) > 0 {
						t.Errorf("got %+v, %v", crashed, err)
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
			t.Errorf("files left: %v, %v", left, err)
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
		wait.Until(t, "the session stops", func() bool { return s.State() == session.StateStopping })
		s.Log().Sync()
		left := t.TempDir() // the state that a kill would leave
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
		if crashed := readCrashedSessions(t, left); len(crashed) > 0 {
			t.Errorf("got %+v", crashed)
		}
		if still, err := os.ReadDir(left); err != nil || len(still) > 0 {
			t.Errorf("files left: %v, %v", still, err)
		}
	})

	t.Run("is not saved from the directory being removed", func(t *testing.T) {
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
		if crashed := readCrashedSessions(t, dir); len(crashed) > 0 {
			t.Errorf("got %+v", crashed)
		}
		if _, err := os.Lstat(left[0] + ".discarded"); !os.IsNotExist(err) {
			t.Errorf("still exists: %v", err)
		}
	})
}

// copyReadable copies a directory without files that its user cannot read, such as those of a
// sandbox.
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
