package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// pollingCode runs bash with a script.
const pollingCode = `
def bash(script):
    import subprocess
    subprocess.run(["bash", "-c", script])
    got = None
    return got
`

// newPollerTerminal starts repl in a terminal, and defines the functions of pollingCode.
func newPollerTerminal(t *testing.T) (home, *terminalUser) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	h := newHome(t)
	h.env = append(h.env, "TERM=xterm-256color", "NO_COLOR=")
	p := h.startAtPrompt(t)
	p.pasteDefinitions(pollingCode)
	return h, p
}

// wantNoCode checks that what was typed for a program did not run, and ends the session.
func (u *terminalUser) wantNoCode(h home, result string) {
	u.t.Helper()
	u.enterLine("'the ' + 'end'")
	if before := u.waitText("'the end'"); strings.Contains(before, result) {
		u.t.Errorf("it ran as code: %q", before)
	}
	u.waitText(">>> ")
	u.typeKeys(ctrlD)
	u.waitExit(0)
	h.wantNothingLeft(u.t)
}

func TestTypedLines(t *testing.T) {
	t.Parallel()

	t.Run("a program that polls gets the line", func(t *testing.T) {
		t.Parallel()
		h, p := newPollerTerminal(t)
		p.enterLine(`bash("echo on; read -t 60 x; echo got=$x")`)
		p.waitText("on\r\n")
		p.typeKeys("yes\r")
		p.waitText("got=yes")
		p.waitText(">>> ")
		p.wantNoCode(h, "NameError")
	})

	// Such a program never waits for input.
	t.Run("a program that writes while it polls gets the line", func(t *testing.T) {
		t.Parallel()
		h, p := newPollerTerminal(t)
		p.enterLine(`bash("until read -t .05 x; do printf .; done; echo got=$x")`)
		p.waitText("...")
		p.typeKeys("<yes>\r")
		p.waitText(`<yes>` + "\r\n")
		p.waitText("got=<yes>")
		p.waitText(">>> ")
		p.wantNoCode(h, "NameError")
	})

	t.Run("a line whose program ends is kept when the turn goes on", func(t *testing.T) {
		t.Parallel()
		h, p := newPollerTerminal(t)
		p.enterLine(`bash("echo on; read -t 1 x; echo over; until [ -e go ]; do sleep .01; done")`)
		p.waitText("on\r\n")
		p.typeKeys("print('ran' ")
		p.waitText("over\r\n")
		p.waitText("print('ran' ")
		p.waitText("\r\n") // the request has ended
		p.typeKeys("+ 'code')\r")
		p.waitText("[your line was for bash, which no longer reads it; Ctrl-Y brings it back]")
		h.writeFile(t, "go", "")
		p.waitText(">>> ")
		p.typeKeys("\x19")
		p.waitOnScreen("print('ran' + 'code')")
		p.typeKeys(ctrlC)
		p.waitText(">>> ")
		p.wantNoCode(h, "rancode")
	})

	t.Run("a line whose program ends with the turn is kept", func(t *testing.T) {
		t.Parallel()
		h, p := newPollerTerminal(t)
		p.enterLine(`bash("echo on; read -t 1 x; echo over")`)
		p.waitText("on\r\n")
		p.typeKeys("print('ran' ")
		p.waitText("over")
		p.waitText(">>> ")
		p.waitOnScreen("print('ran' ")
		p.typeKeys("+ 'code')\r")
		p.waitText("[your line was for bash, which no longer reads it; Ctrl-Y brings it back]")
		p.waitText(">>> ")
		p.wantNoCode(h, "rancode")
	})

	// The keys arrive around the end of the program, at a different moment each time.
	t.Run("keys across the end of a program never run", func(t *testing.T) {
		t.Parallel()
		h, p := newPollerTerminal(t)
		for range 5 {
			p.enterLine(`bash("echo on; read -t .3 x; echo over")`)
			p.waitText("on\r\n")
			for _, key := range strings.Split("print('ran' + 'code')\r", "") {
				p.typeKeys(key)
			}
			p.waitText("over")
			p.waitText(">>> ")
		}
		p.wantNoCode(h, "rancode")
	})

	t.Run("keys across the end of less never run", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("less"); err != nil {
			t.Skip("less is not installed")
		}
		h, p := newPollerTerminal(t)
		h.writeFile(t, "page", strings.Repeat("a line\n", 100))
		for range 5 {
			p.raw = ""
			p.enterLine(`bash("less page")`)
			p.waitDrawn("\x1b[?1049h")
			p.waitText("page")
			p.typeKeys("q")
			p.typeKeys("print('ran' + 'code')\r")
			p.waitText(">>> ")
		}
		p.wantNoCode(h, "rancode")
	})
}

func TestAttachKeys(t *testing.T) {
	t.Parallel()

	t.Run("Ctrl-] types to a program that reads each key, and shows its screen", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "1"), result{"1\n", newSessionNotice("main"), 0})
		p := h.startTerminal(t, "attach", "main")
		p.waitText(">>> ")
		p.pasteDefinitions(rawKeysCode)
		p.enterLine("keys()")
		p.waitText("takes keys: Ctrl-] types to it, and Ctrl-] again returns]")
		p.raw = ""
		p.typeKeys("\x1d")
		p.waitDrawn("\x1b[?1049h")
		p.waitDrawn("ready")
		p.typeKeys("a\r\x1b[A")
		p.raw = ""
		p.typeKeys("\x1d")
		p.waitDrawn("\x1b[?1049l")
		p.typeKeys("\x1d")
		p.waitDrawn("\x1b[?1049h")
		p.raw = ""
		p.typeKeys("q")
		p.waitDrawn("\x1b[?1049l") // with the turn
		p.waitText(`b'a\r\x1b[Aq'`)
		p.waitText(">>> ")
		p.enterLine("'the prompt ' + 'edits'")
		p.waitText("\r\n'the prompt edits'\r\n")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
	})
}
