//go:build linux

package clients

import (
	"strings"
	"testing"
)

// slowCode is code that prints and then blocks.
const slowCode = "import time\nprint('so far', flush=True)\nopen('started', 'w').close()\ntime.sleep(600)"

// A client whose timeout ends cancels the call. Its model gets the output with the next call, and
// the session continues.
func TestAgents_Timeout(t *testing.T) {
	for _, a := range mainAgents {
		t.Run(a.name, func(t *testing.T) {
			got := a.runAgent(t, agentOptions{timeoutSeconds: 2}, replCall("x = 42"), replCall(slowCode), replCall("print('x is', x)")).seenResults()
			t.Logf("%q", resultTexts(got))
			if !strings.Contains(got[1].text, "timed out") && !strings.Contains(got[1].text, "imeout") {
				t.Errorf("the call did not time out: %q", got[1].text)
			}
			// A client may make the next call before it has cancelled the previous one.
			for _, want := range []string{"so far", "KeyboardInterrupt", "x is 42"} {
				if !strings.Contains(got[2].text, want) {
					t.Errorf("the next reply is %q, want %q in it", got[2].text, want)
				}
			}
		})
	}
}

// killServer is code that kills its own server, which a sandbox would prevent.
const killServer = `
import os, time
stage = os.getppid()
server = int(open(f'/proc/{stage}/stat').read().rsplit(')', 1)[1].split()[1])
os.kill(server, 9)
time.sleep(600)`

// A server that dies takes its sessions with it, and its client says so. Only Claude Code starts
// another server, which has no state.
func TestAgents_ServerCrash(t *testing.T) {
	wants := map[string][2]string{
		"claude": {"Connection closed", "x is gone: True"},
		"codex":  {"Transport closed", "Transport closed"},
		"gemini": {"Connection closed", "Not connected"},
	}
	for _, a := range mainAgents {
		t.Run(a.name, func(t *testing.T) {
			got := a.runAgent(t, agentOptions{server: []string{"--sandbox", "full"}}, replCall("x = 1"), replCall(killServer), replCall("print('x is gone:', 'x' not in globals())")).seenResults()
			t.Logf("%q", resultTexts(got))
			for i, want := range wants[a.name] {
				if !strings.Contains(got[1+i].text, want) {
					t.Errorf("the model received %q, want %q in it", got[1+i].text, want)
				}
			}
		})
	}
}
