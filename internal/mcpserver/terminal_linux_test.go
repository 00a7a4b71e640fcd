package mcpserver_test

import (
	"strings"
	"testing"
)

// runChild defines run, which runs a Python program on the terminal of the session.
const runChild = `import subprocess, sys
def run(program): subprocess.run([sys.executable, "-c", program], check=True)`

// rawReader reads single keys until q. It shows none of them.
const rawReader = `
import os, sys, tty
tty.setraw(0)
def show(text):
    sys.stdout.write(text)
    sys.stdout.flush()
while True:
    show(%PROMPT%)
    key = os.read(0, 1)
    show(repr(key) + "\r\n")
    if key == b"q": break
`

// newChildClient returns a client of Python whose code can run programs on the terminal.
func newChildClient(t *testing.T) *client {
	t.Helper()
	c := newPythonClient(t)
	wantText(t, c.runRepl(runChild), "[done, no output]")
	return c
}

// runProgram runs a Python program on the terminal, and returns the reply.
func (c *client) runProgram(program string) string {
	c.t.Helper()
	return c.runRepl("run(r'''" + program + "''')")
}

func TestTerminalPrograms(t *testing.T) {
	t.Parallel()

	t.Run("a program that polls is answered", func(t *testing.T) {
		t.Parallel()
		const program = `
import select, sys
print("continue? ", end="", flush=True)
while not select.select([0], [], [], 0.2)[0]: pass
print("got", sys.stdin.readline().strip())
`
		const asks = `[waiting for input (python3, polls and may continue by itself): "continue? "]`
		c := newChildClient(t)
		wantText(t, withoutVersion(c.runProgram(program)), asks)
		wantText(t, withoutVersion(c.call("repl_output", map[string]any{"wait_ms": 600}).text()), asks)
		got := c.runRepl("yes")
		for strings.Contains(got, "the code no longer waits for it") { // on a busy machine, the program may seem to have stopped polling
			c.waitPart("repl_output", nil, "waiting for input")
			got = c.runRepl("yes")
		}
		wantPart(t, got, "got yes")
		c.waitState("idle")
		wantText(t, withoutVersion(c.runProgram(program)), asks)
		wantPart(t, c.call("repl", map[string]any{"keys": "no<Enter>"}).text(), "got no")
		c.waitState("idle")
	})

	t.Run("a program that gives up is reported once, and then its end", func(t *testing.T) {
		t.Parallel()
		c := newChildClient(t)
		text := c.runProgram(`
import select
print("quick? ", end="", flush=True)
print("read" if select.select([0], [], [], 3)[0] else "gave up")
`)
		if strings.Contains(text, "waiting for input") { // otherwise the machine was too slow to see it
			text = c.call("repl_output", nil).text()
		}
		wantPart(t, text, "gave up")
	})

	t.Run("a program that takes keys gets them as they are", func(t *testing.T) {
		t.Parallel()
		c := newChildClient(t)
		wantText(t, withoutVersion(c.runProgram(strings.ReplaceAll(rawReader, "%PROMPT%", `"key? "`))), `[waiting for input (python3, takes keys: "<Enter>"): "key? "]`)
		got := c.runRepl("a")
		wantPart(t, got, "b'a'\n", `did not show it; keys: "<Enter>" if it expects one]`)
		got = c.call("repl", map[string]any{"keys": "<Enter>"}).text()
		wantPart(t, got, `b'\r'`, "[waiting for input")
		got = c.call("repl", map[string]any{"keys": "<C-c><Down>q"}).text()
		wantPart(t, got, `b'\x03'`, `b'\x1b'`, `b'['`, `b'B'`, "b'q'")
		if strings.Contains(got, "waiting") {
			t.Errorf("got %q", got)
		}
	})

	t.Run("a full-screen program is driven with one call for each step", func(t *testing.T) {
		t.Parallel()
		c := newChildClient(t)
		got := c.runProgram(strings.ReplaceAll(rawReader, "%PROMPT%", `"\x1b[?1049h\x1b[2J\x1b[3;5Hmenu\x1b[4;1H> "`) + `show("\x1b[?1049l")`)
		const screen = "\n\n    menu\n>\n[screen 120x40, cursor at line 4, column 3, full screen]\n"
		const asks = `[waiting for input (full-screen program python3): answer with keys: "<Enter>", or repl_interrupt]`
		wantText(t, withoutVersion(got), screen+asks)
		wantText(t, withoutVersion(c.call("repl", map[string]any{"keys": "x"}).text()), screen+asks)
		wantText(t, c.call("repl_output", map[string]any{"screen": true}).text()+"\n", screen)
		if got := c.call("repl", map[string]any{"keys": "q"}).text(); strings.Contains(got, "menu") {
			t.Errorf("got %q", got)
		}
	})

	t.Run("the words of a prompt say that keys are secret", func(t *testing.T) {
		t.Parallel()
		c := newChildClient(t)
		wantPart(t, withoutVersion(c.runProgram(strings.ReplaceAll(rawReader, "%PROMPT%", `"Password: "`))), `[waiting for a secret (python3): "Password: "; only the user may type it`)
		wantPart(t, c.call("repl", map[string]any{"keys": "q"}).text(), "your keys were NOT typed: waiting for a secret")
		wantPart(t, c.call("repl_interrupt", nil).text(), "KeyboardInterrupt")
	})

	t.Run("keys that nobody reads are reported", func(t *testing.T) {
		t.Parallel()
		c := newChildClient(t)
		line := c.call("repl", map[string]any{"input": "run('import time; time.sleep(600)')", "timeout_ms": 0}).text()
		wantPart(t, line, "[running ")
		wantPart(t, c.call("repl", map[string]any{"keys": "abc<Enter>", "timeout_ms": 500}).text(), "; 4 typed bytes were not read: ")
		wantPart(t, c.call("repl_interrupt", nil).text(), "KeyboardInterrupt")
	})
}

// withoutVersion replaces the name of a Python program, such as python3.12, with python3.
func withoutVersion(text string) string {
	for _, before := range []string{"(", "program "} {
		if start, rest, ok := strings.Cut(text, before+"python"); ok {
			return start + before + "python3" + strings.TrimLeft(rest, "0123456789.")
		}
	}
	return text
}
