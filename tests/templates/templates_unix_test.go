//go:build unix

package templates_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
	"github.com/turnstone-repl/turnstone/workers/templates"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain})
}

// newSpec writes a template and returns the Spec of its worker.
func newSpec(t *testing.T, name string) workers.Spec {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mine")
	if _, err := templates.Write(name, dir); err != nil {
		t.Fatal(err)
	}
	if words := templates.BuildCommand(name); words != nil {
		compiler, err := exec.LookPath(words[0])
		if err != nil {
			t.Skipf("no %s here: scripts/setup-dev names what is needed", words[0])
		}
		build := exec.Command(compiler, words[1:]...)
		build.Dir = dir
		if said, err := build.CombinedOutput(); err != nil || len(said) > 0 {
			t.Fatalf("%v: %s", err, said)
		}
	}
	command := templates.WorkerCommand(name, dir)
	path, err := exec.LookPath(command[0])
	if err != nil {
		t.Skipf("no %s here: scripts/setup-dev names what is needed", command[0])
	}
	return workers.Spec{Name: name, Path: path, Args: command[1:]}
}

func TestTemplate(t *testing.T) {
	t.Parallel()

	t.Run("passes the conformance checks of its dialect", func(t *testing.T) {
		t.Parallel()
		for name, skipped := range map[string]int{"c": 7, "node": 1, "python": 7, "sqlite": 17} { // checks of calls and of tables; SQL also cannot ask or sleep
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newSpec(t, name)
				text, err := os.ReadFile(filepath.Join(filepath.Dir(append([]string{s.Path}, s.Args...)[len(s.Args)]), "dialect.json"))
				if err != nil {
					t.Fatal(err)
				}
				dialect, err := conformance.ParseDialect(text)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range conformance.Run(t.Context(), s, &conformance.Options{Dialect: dialect, Timeout: time.Minute}) {
					if r.Err != nil {
						t.Errorf("%s: %v", r.Name, r.Err)
					}
					if r.Skipped != "" {
						skipped--
					}
				}
				if skipped < 0 {
					t.Errorf("%d checks were skipped although the dialect has code for them", -skipped)
				}
			})
		}
	})

	t.Run("keeps state and prints values as a REPL does", func(t *testing.T) {
		t.Parallel()
		for name, turns := range map[string][][2]string{
			"node": {
				{"let x = 40; let y = await Promise.resolve(2)", ""},
				{"let x = 41; x + 1", "42\n"},
				{"const {a, b} = {a: 1, b: [x, y]}; b", "[ 41, 2 ]\n"},
				{"setTimeout(() => console.log('later'), 1); await new Promise(done => setTimeout(done, 20))", "later\n"},
				{"require('node:path').basename('/a/b')", "'b'\n"},
				{"null.x", "Uncaught TypeError: Cannot read properties of null (reading 'x')\n    at <anonymous>:1:6\n"},
			},
			"c": {
				{"x = 0; text = \"\"", ""},
				{"while x < 3 {\n  x = x + 1\n  if x == 2 { text = text + \"two \" } else { text = text + x + \" \" }\n}\ntext", "1 two 3 \n"},
				{"print -(1 + 2) * 4 / 8, sqrt(\n16), \"\\u00e9\\ud83d\\udc26\" == \"é🐦\"", "-1.5 4 1\n"},
				{"shell(\"exit 7\")", "7\n"},
				{"print \"never\"; x = = 1", "unexpected =\n"},
				{"nowhere", "unknown name: nowhere\n"},
			},
			"python": {
				{"x = 41", ""},
				{"def f(n):\n    return n + 1\n\nf(x)", "42\n"},
				{"1/0", "ZeroDivisionError: division by zero\n"},
				{"class E(Exception):\n    def __str__(self): return 5\n\nraise E", "E: "},
				{"import sys; sys.stdout = None", ""},
				{"sys.stdout = sys.__stdout__; f(x)", "42\n"},
			},
			"sqlite": {
				{"CREATE TABLE t (n, word);\nINSERT INTO t VALUES (1, 'one'), (22, NULL);", ""},
				{"SELECT * FROM t; .print no", ""}, // an SQL error
				{"SELECT * FROM t;\n.print 'it''s'", "n   word\n1   one\n22  NULL\nit's\n"},
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := openREPL(t, name)
				for _, turn := range turns {
					if got, _ := r.runCode(turn[0]); !strings.Contains(got, turn[1]) {
						t.Errorf("%s: got %q, want %q in it", turn[0], got, turn[1])
					}
				}
			})
		}
	})

	t.Run("accepts an answer and can be interrupted", func(t *testing.T) {
		t.Parallel()
		for name, code := range map[string][3]string{
			"node":   {"console.log('hello', prompt('name? '))", "let kept = 7; for (;;);", "kept"},
			"c":      {"print \"hello\", ask(\"name? \")", "kept = 7; while 1 { }", "kept"},
			"python": {"print('hello', input('name? '))", "kept = 7\nwhile True: pass", "kept"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := openREPL(t, name)
				_, reply := r.runCode(code[0])
				if reply.InputRequest == nil || reply.InputRequest.Prompt != "name? " {
					t.Fatalf("got %+v, want an input request", reply)
				}
				turn, err := r.Answer(t.Context(), reply.InputRequest.ID, session.Input{Data: []byte("Ada\n")})
				if err != nil {
					t.Fatal(err)
				}
				if reply, err = r.Wait(t.Context(), turn, &session.WaitOptions{After: reply.Next}); err != nil || replyText(reply) != "hello Ada\n" {
					t.Errorf("got %q, %v", replyText(reply), err)
				}
				if turn, err = r.Submit(t.Context(), code[1]); err != nil {
					t.Fatal(err)
				}
				if result, err := r.Interrupt(t.Context(), turn); err != nil || result != session.InterruptIdle {
					t.Errorf("got %v, %v, want an end", result, err)
				}
				// The interrupt may have arrived before the first statement.
				if got, reply := r.runCode(code[2]); reply.Outcome == timeline.OutcomeOK && got != "7\n" {
					t.Errorf("got %q, %s", got, reply.Outcome)
				}
			})
		}
	})
}

// A templateREPL is a session of a template.
type templateREPL struct {
	*testing.T
	*supervisor.Session
}

func openREPL(t *testing.T, name string) templateREPL {
	t.Helper()
	sup, err := supervisor.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	s, err := sup.Open(t.Context(), "main", newSpec(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return templateREPL{t, s}
}

// runCode runs code until it ends or asks for input, and returns what it printed.
func (r templateREPL) runCode(code string) (string, session.Reply) {
	r.Helper()
	turn, err := r.Submit(r.Context(), code)
	if err != nil {
		r.Fatal(err)
	}
	reply, err := r.Wait(r.Context(), turn, nil)
	if err != nil {
		r.Fatal(err)
	}
	return replyText(reply), reply
}

func replyText(reply session.Reply) string {
	var b strings.Builder
	for _, e := range reply.Events {
		if t, ok := e.Body.(timeline.Text); ok {
			b.Write(t.Data)
		}
	}
	return b.String()
}
