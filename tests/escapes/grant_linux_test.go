package escapes

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// wantOutput runs code and fails the test unless it prints want.
func wantOutput(t *testing.T, r *sessionkit.TestSession, code, want string) {
	t.Helper()
	if got := strings.TrimSpace(r.RunCode(t, code).OutputText(timeline.Stdout, timeline.Stderr)); got != want {
		t.Errorf("%s: got %q, want %q", code, got, want)
	}
}

// writeCode defines a function that writes a file in a session and reports the result.
const writeCode = `
import os, subprocess, sys
def puts(path):
    try:
        with open(path, 'w') as f: f.write('from inside')
        print('written')
    except OSError as e: print(e.strerror)
`

func TestGrant(t *testing.T) {
	t.Parallel()

	t.Run("gives a live session a directory", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		project := filepath.Join(m.outside, "other")
		for name, text := range map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/hooks/pre-commit": "", ".git/config": "", ".vscode/tasks.json": "{}", "deep/file": "kept"} {
			writeFile(t, filepath.Join(project, name), text)
		}
		hidden := filepath.Join(m.outside, "other/private")
		writeFile(t, filepath.Join(hidden, "key"), secret)
		box := newSandbox(m)
		box.Hidden = append(box.Hidden, hidden)
		r := openSession(t, m, box)
		r.RunCode(t, writeCode+"pid = os.getpid(); x = 41; child = subprocess.Popen(['sh', '-c', 'read x; echo by a child > \""+project+"/deep/child\"; read x'], stdin=subprocess.PIPE, text=True)")
		wantOutput(t, r, "puts('"+project+"/new')", "Read-only file system")

		begin := time.Now()
		if err := r.Session.Allow(t.Context(), session.Grant{Write: project}); err != nil {
			t.Fatal(err)
		}
		t.Logf("the grant took %v", time.Since(begin))
		wantOutput(t, r, "puts('"+project+"/new'); print(x + 1, pid == os.getpid())", "written\n42 True")
		wantOutput(t, r, "_ = child.stdin.write('go\\n'); child.stdin.flush()\nwhile not os.path.exists('"+project+"/deep/child') or not os.path.getsize('"+project+"/deep/child'): pass\nchild.kill()", "")
		for _, name := range []string{".git/hooks/pre-commit", ".git/hooks/post-commit", ".vscode/tasks.json", ".envrc", ".git/config.worktree"} {
			wantOutput(t, r, "puts('"+filepath.Join(project, name)+"')", "Read-only file system")
		}
		wantOutput(t, r, "puts('"+project+"/.git/config')", "written") // into a draft, which is refused when it is closed
		wantOutput(t, r, `
try: open('`+project+`/.git/config', 'a')
except OSError as e: print(e.strerror)
try: os.rename('`+project+`/.git', '`+project+`/x')
except OSError as e: print(e.strerror)
try: print(open('`+hidden+`/key').read())
except OSError as e: print(e.strerror)
`, "Read-only file system\nRead-only file system\nPermission denied")
		for path, want := range map[string]string{"new": "from inside", ".git/config": "", "deep/child": "by a child\n", "deep/file": "kept", ".git/hooks/pre-commit": ""} {
			if got := readText(filepath.Join(project, path)); got != want {
				t.Errorf("outside, %s is %q, want %q", path, got, want)
			}
		}
		if entries, _ := os.ReadDir(filepath.Join(m.outside)); len(entries) != 3 {
			t.Errorf("got %v in the directory above, want nothing new", entries)
		}
	})

	t.Run("is refused for protected paths", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		for _, dir := range []string{m.home, "/", filepath.Join(m.home, ".ssh"), filepath.Join(m.home, "mine"), filepath.Join(m.work, ".git/hooks"), filepath.Join(m.work, ".vscode"), m.sessions, "/tmp", "/dev/null", filepath.Join(m.outside, "absent")} {
			if err := r.Session.Allow(t.Context(), session.Grant{Write: dir}); err == nil {
				t.Errorf("access to %s was granted", dir)
			}
		}
	})

	// A session can make a link in its workspace and ask for access to it. The user allows the
	// directory to which it leads.
	t.Run("names the real directory and no directory of programs", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		programs, data := filepath.Join(m.outside, "programs"), filepath.Join(m.outside, "data")
		in := func(name string) string { return filepath.Join(m.home, name) }
		for _, dir := range []string{programs, data, in(".config/systemd/user"), in("env/lib/python3/site-packages/x"), in(".cache/tool"), in(".vim")} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		writeFile(t, in("env/pyvenv.cfg"), "")
		m.env = append(m.env, "PATH="+programs+":/usr/bin:/bin")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, writeCode+"os.symlink('"+data+"', 'results'); os.symlink('"+programs+"', 'commands')")
		for path, want := range map[string]struct{ real, words string }{
			filepath.Join(m.work, "results"):      {data, " leads to " + text.QuoteName(data) + "; a user must confirm that"},
			filepath.Join(m.work, "commands"):     {programs, " leads to " + text.QuoteName(programs) + ", which has programs of your PATH; a user must confirm that"},
			programs:                              {programs, " has programs of your PATH; a user must confirm that"},
			m.outside:                             {m.outside, " has programs of your PATH; a user must confirm that"},
			in(".config/systemd/user"):            {in(".config/systemd/user"), "is where programs keep what they run and read"},
			in(".bashrc"):                         {in(".bashrc"), "is where programs keep what they run and read"},
			in(".vim"):                            {in(".vim"), "is where programs keep what they run and read"},
			in("env/lib/python3/site-packages/x"): {in("env/lib/python3/site-packages/x"), "has packages that your programs import"},
			in("env"):                             {in("env"), "has packages that your programs import"},
		} {
			for _, accept := range []string{"", path + "/", filepath.Dir(want.real)} { // none of these is the real path
				err := r.Session.Allow(t.Context(), session.Grant{Write: path, Accept: accept})
				refused, ok := errors.AsType[*session.Error](err)
				if !ok || refused.Kind != session.KindUnconfirmed || refused.Grant == nil || refused.Grant.Write != want.real || !strings.Contains(err.Error(), want.words) {
					t.Errorf("%s: got %v, want %q", path, err, want.words)
				}
			}
		}
		wantGrant(t, r, session.Grant{Write: in(".cache/tool")}, "")
		for _, dir := range []string{programs, data} {
			wantOutput(t, r, "puts('"+dir+"/x')", "Read-only file system")
		}

		err := r.Session.Allow(t.Context(), session.Grant{Write: filepath.Join(m.work, "commands")})
		refused, _ := errors.AsType[*session.Error](err)
		if refused == nil || refused.Grant == nil {
			t.Fatalf("got %v", err)
		}
		wantGrant(t, r, *refused.Grant, "") // as the user has confirmed it
		wantGrant(t, r, session.Grant{Write: in(".bashrc"), Accept: in(".bashrc")}, "")
		for _, when := range []string{"at once", "after a reset"} {
			wantOutput(t, r, "puts('"+programs+"/x')", "written")
			if got := readText(filepath.Join(programs, "x")); got != "from inside" {
				t.Errorf("%s: outside, the file is %q", when, got)
			}
			wantOutput(t, r, "puts('"+in(".bashrc")+"')", "written")
			r.RestartWorker(t)
			r.RunCode(t, writeCode)
		}
	})

	// A grant is for the file that the user was shown.
	t.Run("covers the directory that existed at the question", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, writeCode)
		for what, change := range map[string]string{
			"a directory that was replaced":   "mv shown old && mkdir shown",
			"a directory that was made again": "rmdir shown && mkdir shown",
			"a directory from elsewhere":      "mkdir other && mv shown older && mv other shown",
		} {
			t.Run(what, func(t *testing.T) {
				m.outsideDoes(t, m.outside, "mkdir -p shown && ln -sfn "+m.outside+"/shown "+m.work+"/link")
				err := r.Session.Allow(t.Context(), session.Grant{Write: filepath.Join(m.work, "link")})
				refused, _ := errors.AsType[*session.Error](err)
				if refused == nil || refused.Grant == nil {
					t.Fatalf("got %v", err)
				}
				m.outsideDoes(t, m.outside, change)
				wantGrant(t, r, *refused.Grant, "it was replaced after")
				wantOutput(t, r, "puts('"+m.outside+"/shown/x')", "Read-only file system")
			})
		}
	})

	// A grant may be for one file. If a program outside replaces it, the session cannot write the
	// new file, and its next turn says so. After a reset it can, unless that is not a regular file.
	t.Run("covers one file and not its replacement", func(t *testing.T) {
		t.Parallel()
		for name, give := range map[string]func(t *testing.T, r *sessionkit.TestSession, path string){
			"outside/given": func(t *testing.T, r *sessionkit.TestSession, path string) {
				wantGrant(t, r, session.Grant{Write: path}, "")
			},
			"home/.data/given": func(t *testing.T, r *sessionkit.TestSession, path string) {
				wantGrant(t, r, session.Grant{Write: path, Accept: path}, "")
			},
			"home/asked": func(t *testing.T, r *sessionkit.TestSession, path string) {
				turn := r.StartTurn(t, "puts('"+path+"')")
				p := waitPermission(t, r, turn)
				if p.Grant != (session.Grant{Write: path}) {
					t.Fatalf("the question is about %+v", p.Grant)
				}
				if err := r.Session.AnswerPermission(t.Context(), p.ID, true); err != nil {
					t.Fatal(err)
				}
				waitTurnEnd(t, r, turn, "written")
			},
		} {
			t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				path := filepath.Join(filepath.Dir(m.home), name)
				writeFile(t, path, "old")
				writeFile(t, path+"-beside", "old")
				box := newSandbox(m)
				box.AskUser = strings.HasSuffix(name, "asked")
				r := openSession(t, m, box)
				r.RunCode(t, writeCode)
				give(t, r, path)
				outside := func(when, want string) {
					t.Helper()
					if got := readText(path); got != want {
						t.Errorf("%s: outside, the file is %q, want %q", when, got, want)
					}
				}
				wantOutput(t, r, "puts('"+path+"')", "written")
				outside("given", "from inside")
				beside := r.StartTurn(t, "puts('"+path+"-beside')")
				if box.AskUser {
					if err := r.Session.AnswerPermission(t.Context(), waitPermission(t, r, beside).ID, false); err != nil {
						t.Fatal(err)
					}
				}
				r.WaitTurnEnd(t, beside)
				if output := r.RunCode(t, "os.rename('"+path+"', '"+path+"-away')").Transcript(); !strings.Contains(output, "OSError") || readText(path+"-beside") != "old" {
					t.Errorf("the grant covers more than the file: %s", output)
				}

				m.outsideDoes(t, m.work, "mkfifo go")
				turn := r.StartTurn(t, "print('ready'); open('go').read()\nputs('"+path+"')")
				r.WaitEvent(t, "ready", sessionkit.IsText("ready"))
				m.outsideDoes(t, m.work, "printf new > "+path+".new && mv "+path+".new "+path+" && echo > go")
				r.FinishTurn(t, turn)
				outside("replaced in a turn", "new")
				if output := r.RunCode(t, "puts('"+path+"')").Transcript(); !strings.Contains(output, path+" was replaced by a program outside the sandbox; until a reset, this session keeps writing to the old one") {
					t.Errorf("the next turn reports %s", output)
				}
				outside("the turn after", "new")
				r.RestartWorker(t)
				r.RunCode(t, writeCode)
				wantOutput(t, r, "puts('"+path+"')", "written")
				outside("after a reset", "from inside")

				elsewhere := filepath.Join(m.outside, "elsewhere")
				m.outsideDoes(t, m.work, "mv "+path+" "+path+".real && ln -s "+elsewhere+" "+path+" && printf kept > "+elsewhere)
				r.RunCode(t, "puts('"+path+"')")
				r.RestartWorker(t)
				turn = r.StartTurn(t, writeCode+"puts('"+path+"')")
				r.FinishTurn(t, turn)
				first, err := r.Session.Wait(t.Context(), turn, &session.WaitOptions{Poll: true})
				if output := first.Text(); err != nil || !strings.Contains(output, "an allowed path is left out: "+text.QuoteName(path)+" leads to "+text.QuoteName(elsewhere)) {
					t.Errorf("the reset reports %s", output)
				}
				if got := readText(elsewhere); got != "kept" {
					t.Errorf("a link in its place was followed: %q", got)
				}
			})
		}
	})
}

func TestPendingCall(t *testing.T) {
	t.Parallel()

	t.Run("waits for the user", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		box := newSandbox(m)
		box.AskUser = true
		r := openSession(t, m, box)
		r.RunCode(t, writeCode)
		path := filepath.Join(m.outside, "asked")

		turn := r.StartTurn(t, "puts('"+path+"')")
		p := waitPermission(t, r, turn)
		if want := (timeline.AccessDenied{Op: "create", Path: path}); p.AccessDenied != want {
			t.Errorf("got %+v, want %+v", p.AccessDenied, want)
		}
		if err := r.Session.AnswerPermission(t.Context(), p.ID, false); err != nil {
			t.Fatal(err)
		}
		waitTurnEnd(t, r, turn, "Read-only file system")

		other := filepath.Join(m.outside, "dir")
		if err := os.Mkdir(other, 0o755); err != nil {
			t.Fatal(err)
		}
		turn = r.StartTurn(t, "puts('"+other+"/x')")
		p = waitPermission(t, r, turn)
		if _, err := r.Session.Interrupt(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		if got := r.WaitTurnEnd(t, turn); got.Outcome != string(timeline.OutcomeInterrupted) {
			t.Errorf("got %s after an interrupt, want interrupted: %s", got.Outcome, got.Transcript())
		}
		turn = r.StartTurn(t, "puts('"+other+"/x')")
		if p = waitPermission(t, r, turn); p.Path != other+"/x" {
			t.Errorf("got %+v", p)
		}
		if err := r.Session.AnswerPermission(t.Context(), p.ID, true); err != nil {
			t.Fatal(err)
		}
		waitTurnEnd(t, r, turn, "written")
		if got := readText(other + "/x"); got != "from inside" {
			t.Errorf("outside, the file is %q", got)
		}
	})

	// The code sees the interrupt, and not the refusal that follows it.
	t.Run("is interrupted before it is refused", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		box := newSandbox(m)
		box.AskUser = true
		r := openSession(t, m, box)
		r.RunCode(t, writeCode)
		for range 20 {
			turn := r.StartTurn(t, "puts('"+filepath.Join(m.outside, "asked")+"')")
			waitPermission(t, r, turn)
			if _, err := r.Session.Interrupt(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			if got := r.WaitTurnEnd(t, turn); got.Outcome != string(timeline.OutcomeInterrupted) || strings.Contains(got.Transcript(), "Read-only") {
				t.Fatalf("got %s: %s", got.Outcome, got.Transcript())
			}
		}
	})

	// The user allowed the directory that was there when the question was asked.
	t.Run("does not cover a directory that was replaced since the question", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		box := newSandbox(m)
		box.AskUser = true
		r := openSession(t, m, box)
		r.RunCode(t, writeCode)
		for _, c := range []struct{ what, outside, name string }{
			{"by another directory", "mv one old && mkdir one", "one"},
			{"by a link", "mv two old2 && mkdir new && ln -s new two", "two"},
			{"by a directory from elsewhere", "mv three old3 && mv ../other three", "three"},
		} {
			t.Run(c.what, func(t *testing.T) {
				m.outsideDoes(t, m.outside, "mkdir -p ../other "+c.name) // a refusal is remembered, so each case has its own directory
				dir := filepath.Join(m.outside, c.name)
				turn := r.StartTurn(t, "puts('"+dir+"/x')")
				p := waitPermission(t, r, turn)
				m.outsideDoes(t, m.outside, c.outside)
				if err := r.Session.AnswerPermission(t.Context(), p.ID, true); err == nil {
					t.Error("access was granted")
				}
				if now := sessionkit.SessionInfo(r); now.InputRequest != nil && now.InputRequest.Permission != nil { // the question can still be refused
					if err := r.Session.AnswerPermission(t.Context(), p.ID, false); err != nil {
						t.Fatal(err)
					}
				}
				waitTurnEnd(t, r, turn, "Read-only file system")
				if readText(filepath.Join(dir, "x")) != "" {
					t.Error("the replacement was written")
				}
			})
		}
	})
}

// waitPermission waits until a turn asks for a permission.
func waitPermission(t *testing.T, r *sessionkit.TestSession, turn uint64) session.PermissionRequest {
	t.Helper()
	reply, err := r.Session.Wait(t.Context(), turn, session.WaitAtMost(sessionkit.Timeout))
	if err != nil || reply.InputRequest == nil || reply.InputRequest.Permission == nil {
		t.Fatalf("got %+v, %v; want a question", reply, err)
	}
	return *reply.InputRequest.Permission
}

// waitTurnEnd waits for the end of a turn.
func waitTurnEnd(t *testing.T, r *sessionkit.TestSession, turn uint64, want string) {
	t.Helper()
	if got := r.WaitTurnEnd(t, turn).OutputText(timeline.Stdout, timeline.Stderr); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExplanation(t *testing.T) {
	t.Parallel()

	// A file that the user left in /tmp is not found. One notice says so, unless the file cannot be
	// meant.
	t.Run("covers a file of the machine's tmp directory once", func(t *testing.T) {
		t.Parallel()
		hint := `[notice "this session has its own /tmp and does not see the files in yours; put what it needs into the workspace"]`
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		for _, code := range []string{ // these cause no notice
			"open('/tmp/data.csv', 'w').close(); print(open('/tmp/data.csv').read())", "print('/tmp/other.csv')", "open('missing.csv')",
			"open('/srv/tmp/data.csv')", "raise ValueError('/tmp/data.csv is odd')",
		} {
			if got := r.RunCode(t, code).Transcript(); strings.Contains(got, hint) {
				t.Errorf("%s: got %s", code, got)
			}
		}
		for _, code := range []string{"open('/tmp/mine.csv')", "import os; os.system('cat /tmp/mine.csv')"} {
			r := openSession(t, m, newSandbox(m))
			for i, want := range []int{1, 0} {
				if got := strings.Count(r.RunCode(t, code).Transcript(), hint); got != want {
					t.Errorf("%s: got %d notices in run %d, want %d", code, got, i+1, want)
				}
			}
		}
	})

	// R names the file in a warning, in the user's language.
	t.Run("covers a warning of R", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("Rscript"); err != nil {
			t.Skip("Rscript is not installed")
		}
		m := newMachine(t)
		spec := r.Spec(r.Options{Env: append(m.env, "LANGUAGE=de")})
		spec.Dir, spec.Sandbox = m.work, newSandbox(m)
		repl := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: m.sessions, Env: append(m.env, "LANGUAGE=de"), GrantHint: newHint}, spec)
		hides := `[notice "the sandbox hides ` + m.home + `/.ssh from every session, and no user can allow it"]`
		file := m.home + "/.ssh/id_ed25519"
		for code, want := range map[string]int{
			"readLines('" + file + "')":                     1,
			"read.csv('" + file + "')":                      1,
			"source('" + file + "')":                        1,
			"readRDS('" + file + "')":                       1,
			"file('" + file + "', 'r')":                     1,
			"try(readLines('" + file + "'))":                1, // its warning is shown
			"invisible(system('cat " + file + "'))":         1,
			"cat('keys are in " + m.home + "/.ssh\n')":      0,
			"suppressWarnings(file.exists('" + file + "'))": 0,
		} {
			if got := strings.Count(repl.RunCode(t, code).Transcript(), hides); got != want {
				t.Errorf("%s: got %d notices", code, got)
			}
		}
	})

	// Opening a hidden file is an ordinary error of the language. The reply explains it.
	t.Run("covers an error that names a hidden file", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		hides := `[notice "the sandbox hides ` + m.home + `/.ssh from every session, and no user can allow it"]`
		for code, want := range map[string]bool{
			"open('" + m.home + "/.ssh/id_ed25519')":                                           true,
			"import os; os.listdir('" + m.home + "/.ssh')":                                     true,
			"raise ValueError('no path is named')":                                             false,
			"open('" + m.home + "/.sshd')":                                                     false,
			"try: open('" + m.home + "/.ssh/id_ed25519')\nexcept OSError: 0":                   false, // the code ignores the error
			"import subprocess; subprocess.run(['cat', '" + m.home + "/.ssh/id_ed25519'])":     true,  // a message of a child
			"import os; os.system('cat \"" + m.home + "/.ssh/a\" \"" + m.home + "/.ssh/b\"')":  true,
			"import sys; print('warning: cannot read " + m.home + "/.ssh/x', file=sys.stderr)": true,
			"print('keys are in " + m.home + "/.ssh')":                                         false,
			"'" + m.home + "/.ssh'":                                                            false,
		} {
			if got := strings.Count(r.RunCode(t, code).Transcript(), hides); got != map[bool]int{true: 1}[want] {
				t.Errorf("%s: got %d notices", code, got)
			}
		}
	})
}
