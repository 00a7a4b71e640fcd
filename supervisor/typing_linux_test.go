package supervisor_test

import (
	"encoding/base64"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// terminalPrelude has what the test programs share: raw(), cooked(), show() and key().
const terminalPrelude = `
import os, select, sys, termios, time, tty
before = termios.tcgetattr(0)
def raw(): tty.setraw(0)
def cooked(): termios.tcsetattr(0, termios.TCSANOW, before)
def show(text): os.write(1, text.encode())
def key(n=1): return os.read(0, n)
`

// runProgram starts a turn that runs a Python program at the terminal, and waits until it reads, or
// ends.
func runProgram(t *testing.T, s *supervisor.Session, script string) (turn uint64, r session.Reply) {
	t.Helper()
	return runProgramAfter(t, s, "", script)
}

// runProgramAfter is like runProgram, after other code in the same turn.
func runProgramAfter(t *testing.T, s *supervisor.Session, before, script string) (turn uint64, r session.Reply) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	code := base64.StdEncoding.EncodeToString([]byte(terminalPrelude + script))
	turn, r = runTurn(t, s, before+"\n"+`sh python3 -c 'import base64; exec(base64.b64decode("`+code+`"))'`)
	if r.InputRequest == nil && r.Outcome == "" {
		t.Skip("needs /proc/<pid>/syscall: this system does not show who reads the terminal")
	}
	return turn, r
}

func typeKeys(t *testing.T, s session.Session, text string) {
	t.Helper()
	if _, err := s.Type(deadlineContext(t), session.Keys{Text: text}); err != nil {
		t.Fatalf("type %q: %v", text, err)
	}
}

func answerText(t *testing.T, s session.Session, r session.Reply, text string) {
	t.Helper()
	if r.InputRequest == nil {
		t.Fatalf("there is no request to answer with %q: %q", text, outputText(r.Events))
	}
	if _, err := s.Answer(deadlineContext(t), r.InputRequest.ID, session.Input{Data: []byte(text)}); err != nil {
		t.Fatalf("answer %q: %v", text, err)
	}
}

// notices returns the notices among events.
func notices(events []timeline.Event) string {
	var all []string
	for _, e := range events {
		if n, ok := e.Body.(timeline.Notice); ok {
			all = append(all, n.Message)
		}
	}
	return strings.Join(all, "\n")
}

func TestTypeKeys(t *testing.T) {
	t.Parallel()

	t.Run("gives a program one key after the other", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, _ := runProgram(t, s, `
raw()
show("keys? ")
got = [key(100) for _ in range(4)]
cooked()
print(got)`)
		typeKeys(t, s, "ab<Down><C-x><Enter>")
		if got := outputText(waitReply(t, s, turn).Events); !strings.Contains(got, `[b'ab', b'\x1b[B', b'\x18', b'\r']`) {
			t.Errorf("got %q", got)
		}
	})

	t.Run("encodes cursor keys as the program has asked for", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, _ := runProgram(t, s, `
raw()
show("\x1b[?1h")
got = key(100)
cooked()
print(got)`)
		typeKeys(t, s, "<Up>")
		if got := outputText(waitReply(t, s, turn).Events); !strings.Contains(got, `b'\x1bOA'`) {
			t.Errorf("got %q", got)
		}
	})

	t.Run("gives a program that reads lines whole lines, edited as at any terminal", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, _ := runProgram(t, s, "got = [key(100), key(100), key(100)]\nprint(got)")
		typeKeys(t, s, "eve<C-u>one twö<BS>o x<C-w><Enter>b<Enter><C-d>")
		if got := outputText(waitReply(t, s, turn).Events); !strings.Contains(got, `[b'one two \n', b'b\n', b'']`) {
			t.Errorf("got %q", got)
		}
	})

	t.Run("pastes several lines only for a program that takes pastes", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct{ begin, want string }{
			"takes pastes": {`show("\x1b[?2004h")`, `b'\x1b[200~a\rb\x1b[201~'`},
			"does not":     {``, `b'a\rb'`},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := openSession(t, nil, fakeSpec(nil))
				turn, _ := runProgram(t, s, "raw()\n"+c.begin+"\ngot = key(100)\ncooked()\nprint(got)")
				typeKeys(t, s, "a\nb")
				if got := outputText(waitReply(t, s, turn).Events); !strings.Contains(got, c.want) {
					t.Errorf("got %q, want %s", got, c.want)
				}
			})
		}
	})

	t.Run("types all of 64 KiB, of any bytes", func(t *testing.T) {
		t.Parallel()
		for name, begin := range map[string]string{"single keys": "raw()", "lines": "pass"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := openSession(t, nil, fakeSpec(nil))
				turn, _ := runProgram(t, s, begin+`
show("go")
got = b""
while len(got) < 65536:
    got += key(1000)
    time.sleep(0.001)
cooked()
print(len(got), got == b"\xffabcdefg" * 8192)`)
				if _, err := s.Type(deadlineContext(t), session.Keys{Bytes: []byte(strings.Repeat("\xffabcdefg", 8192))}); err != nil {
					t.Fatal(err)
				}
				if got := outputText(waitReply(t, s, turn).Events); !strings.Contains(got, "65536 True") {
					t.Errorf("got %q", got)
				}
			})
		}
	})

	t.Run("reaches a program that nobody sees reading", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, _ := startProgram(t, s, `
raw()
print("up", flush=True)
while not select.select([0], [], [], 0)[0]: time.sleep(0.02)
got = key()
cooked()
print(got)`)
		waitForEvent(t, s, 0, func(e timeline.Event) bool { return strings.Contains(outputText([]timeline.Event{e}), "up") })
		typeKeys(t, s, "q")
		if got := outputText(waitReply(t, s, turn).Events); !strings.Contains(got, "b'q'") {
			t.Errorf("got %q", got)
		}
	})

	t.Run("says how much nobody has read", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, _ := runProgram(t, s, `
raw()
got = key()
cooked()
print(got)`)
		typeKeys(t, s, "qabc")
		r := waitReply(t, s, turn)
		if got := notices(r.Events); got != "3 bytes of typed input were not read" {
			t.Errorf("got notices %q after %q", got, outputText(r.Events))
		}
	})
}

// startProgram starts a turn that runs a Python program at the terminal.
func startProgram(t *testing.T, s *supervisor.Session, script string) (turn uint64, err error) {
	t.Helper()
	code := base64.StdEncoding.EncodeToString([]byte(terminalPrelude + script))
	turn, err = s.Submit(deadlineContext(t), `sh python3 -c 'import base64; exec(base64.b64decode("`+code+`"))'`)
	if err != nil {
		t.Fatal(err)
	}
	return turn, nil
}

func TestAnswer_SingleKeys(t *testing.T) {
	t.Parallel()

	t.Run("of one key has no Enter", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, r := runProgram(t, s, "raw()\nshow('y/n ')\ngot = [key(), key()]\ncooked()\nprint(got)")
		if r.InputRequest == nil || !r.InputRequest.Raw {
			t.Fatalf("got %+v, want a request for keys", r.InputRequest)
		}
		answerText(t, s, r, "y\n")
		r = waitReply(t, s, turn)
		if n := notices(r.Events); !strings.HasPrefix(n, "typed without Enter: python3 did not show it") {
			t.Errorf("got notices %q", n)
		}
		answerText(t, s, r, "n\n")
		if got := outputText(waitReply(t, s, turn).Events); !strings.Contains(got, "[b'y', b'n']") {
			t.Errorf("got %q", got)
		}
	})

	t.Run("ends with Enter if the program shows it", func(t *testing.T) {
		t.Parallel()
		const editor = `
raw()
show("name? ")
got = b""
while True:
    k = key()
    if k == b"\r": break
    got += k
    ECHO
cooked()
print(got)`
		for name, echo := range map[string]string{
			"as text":      `show(k.decode())`,
			"drawn again":  `show("\r\x1b[Kname? " + got.decode())`,
			"as a mask":    `show("*")`,
			"after a time": `time.sleep(0.05); show(k.decode())`,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := openSession(t, nil, fakeSpec(nil))
				turn, r := runProgram(t, s, strings.Replace(editor, "ECHO", echo, 1))
				answerText(t, s, r, "bob\n")
				r = waitReply(t, s, turn)
				if got := outputText(r.Events); !strings.Contains(got, "b'bob'") || notices(r.Events) != "" {
					t.Errorf("got %q, notices %q", got, notices(r.Events))
				}
			})
		}
	})

	// With "bb" in a menu that has an entry "bb", Enter would choose another one.
	t.Run("has no Enter if the text is elsewhere on the screen", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, r := runProgram(t, s, `
raw()
show("> aa\r\n  bb\r\n\x1b[2A")
key(100)
got = key(100)
cooked()
print(got)`)
		answerText(t, s, r, "bb\n")
		r = waitReply(t, s, turn)
		if r.InputRequest == nil || !strings.HasPrefix(notices(r.Events), "typed without Enter") {
			t.Fatalf("got %+v, notices %q", r.InputRequest, notices(r.Events))
		}
		typeKeys(t, s, "<Down>")
		waitReply(t, s, turn)
	})

	t.Run("for a prompt that asks for a password is secret and ends with Enter", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, r := runProgram(t, s, `
raw()
show("\x1b[1mPassword:\x1b[0m ")
got = b""
while not got.endswith(b"\r"): got += key()
cooked()
print(len(got))`)
		if r.InputRequest == nil || !r.InputRequest.Secret || r.InputRequest.Kind != timeline.InputKindSecret {
			t.Fatalf("got %+v, want a secret", r.InputRequest)
		}
		answerText(t, s, r, "hunter2\n")
		r = waitReply(t, s, turn)
		if got := outputText(r.Events); !strings.Contains(got, "8\n") {
			t.Errorf("got %q", got)
		}
		for _, e := range r.Events {
			if line, ok := e.Body.(timeline.InputLine); ok && (!line.Secret || line.Text != "") {
				t.Errorf("recorded %+v", line)
			}
		}
	})
}

func TestScreen(t *testing.T) {
	t.Parallel()

	t.Run("shows what programs have drawn, until the turn ends", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, _ := runProgram(t, s, `
print("plain text before")
raw()
show("\x1b[?1049h\x1b[2J\x1b[3;5Hhello\x1b[4;5H\x1b[7mchosen\x1b[0m")
key()
show("\x1b[?1049l")
cooked()`)
		screen, err := s.Screen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := "\n\n    hello\n    chosen\n[screen 120x40, cursor at line 4, column 11, full screen; highlighted: line 4 \"chosen\"]"
		if got := screen.RenderText(); got != want || screen.Program != "python3" {
			t.Errorf("got %q of %q, want %q", got, screen.Program, want)
		}
		typeKeys(t, s, "q")
		waitReply(t, s, turn)
		if _, err := s.Screen(t.Context()); session.KindOf(err) != session.KindStale {
			t.Errorf("got %v between turns", err)
		}
	})

	t.Run("has the plain text from before a program drew", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		runProgram(t, s, "print('one')\nprint('two')\nraw()\nshow('k? ')\nkey()")
		screen, err := s.Screen(t.Context())
		if got := strings.Join(screen.Lines, "\n"); err != nil || got != "one\ntwo\nk?" {
			t.Errorf("got %q, %v", got, err)
		}
	})

	t.Run("has what the runtime sends in another way than the terminal", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		runProgramAfter(t, s, "bulk 70000", "raw()\nkey()")
		screen, err := s.Screen(t.Context())
		if err != nil || len(screen.Lines) != screen.Rows {
			t.Errorf("got %d lines, %v, want a full screen", len(screen.Lines), err)
		}
	})

	t.Run("answers the queries of a program that reads single keys", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, r := runProgram(t, s, `
raw()
show("abc\x1b[6n")
got = b""
while not got.endswith(b"R"): got += key()
cooked()
print(got)`)
		if r.Outcome == "" {
			r = waitReply(t, s, turn)
		}
		if got := outputText(r.Events); !strings.Contains(got, `b'\x1b[1;4R'`) || notices(r.Events) != "" {
			t.Errorf("got %q, notices %q", got, notices(r.Events))
		}
	})

	// The answer would otherwise be the input of whatever reads the next line.
	t.Run("answers no query of a program that reads lines", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, r := runProgram(t, s, `
show("abc\x1b[6n\x1b[c")
time.sleep(0.05)
print(repr(input()))`)
		answerText(t, s, r, "line\n")
		if got := outputText(waitReply(t, s, turn).Events); !strings.Contains(got, `'line'`) {
			t.Errorf("got %q", got)
		}
	})
}

func TestInterrupt_TerminalReader(t *testing.T) {
	t.Parallel()
	s := openSession(t, nil, fakeSpec(nil))
	turn, r := runProgram(t, s, `
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
raw()
show("editor")
while True: key()`)
	if r.InputRequest == nil {
		t.Fatal("got no request")
	}
	for i := range 5 {
		if result, err := s.Interrupt(deadlineContext(t), turn); err != nil {
			t.Fatal(err)
		} else if result == session.InterruptIdle {
			if i == 0 {
				t.Error("the first interrupt ended a program that ignores it")
			}
			r := waitReply(t, s, turn)
			if n := notices(r.Events); !strings.Contains(n, "python3 got SIGHUP, because it still read the terminal after an interrupt") {
				t.Errorf("got notices %q", n)
			}
			return
		}
		waitReply(t, s, turn)
	}
	t.Error("the turn did not end")
}

// An answer that comes too late is lost, and is never run as code.
func TestAnswer_Race(t *testing.T) {
	t.Parallel()
	s := openSession(t, nil, fakeSpec(nil))
	const rounds = 30
	read, refused, dropped, unseen := 0, 0, 0, 0
	for i := range rounds {
		turn, err := s.Submit(deadlineContext(t), "sh bash -c 'read -t 0.7 x; echo \"got <$x>\"'")
		if err != nil {
			t.Fatal(err)
		}
		r := waitReply(t, s, turn)
		if r.InputRequest == nil { // on a busy machine the time limit can end first
			unseen++
			continue
		}
		time.Sleep(time.Duration(230+2*i) * time.Millisecond) // around the end of the time limit
		_, err = s.Answer(deadlineContext(t), r.InputRequest.ID, session.Input{Data: []byte("print SURPRISE\n")})
		r = waitReply(t, s, turn)
		text := outputText(r.Events)
		switch {
		case strings.Contains(text, "got <p"): // bash may run out of time in the middle, and drops the rest
			read++
		case session.KindOf(err) == session.KindStale:
			refused++
		case strings.Contains(notices(r.Events), "were not read"), strings.Contains(notices(r.Events), "were not typed"):
			dropped++
		default:
			t.Errorf("got %q, %v, notices %q", text, err, notices(r.Events))
		}
		if i, err := s.Info(t.Context()); err != nil || i.Turn != turn {
			t.Fatalf("another turn has started: %+v, %v", i, err)
		}
	}
	if unseen == rounds {
		t.Skip("needs /proc/<pid>/syscall: this system does not show who reads the terminal")
	}
	t.Logf("read %d, refused %d, dropped %d, unseen %d", read, refused, dropped, unseen)
}
