package escapes

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// peersEnv names a file with a line "NAME KIND COMMAND …" for each sandbox to compare. The command
// is an MCP server with a Python tool repl (kind mcp), or a command that runs the program after it
// (kind run): "codex run codex sandbox --", "mcp-repl mcp mcp-repl --interpreter python".
const peersEnv = "TURNSTONE_TEST_PEERS"

// probeTime bounds one probe. A probe that hangs counts neither as a prevented escape nor as
// working.
const probeTime = 20 * time.Second

// BenchmarkPeers counts, for each sandbox with its defaults, the escapes that it prevents and the
// ordinary things that work in it. Run it in an isolated network:
//
//	unshare -n sh -c 'ip link set lo up; TURNSTONE_TEST_PEERS=FILE go test -run ^$ -bench Peers -benchtime 1x ./tests/escapes'
func BenchmarkPeers(b *testing.B) {
	text, err := os.ReadFile(os.Getenv(peersEnv))
	if err != nil {
		b.Skipf("%s names no file of sandboxes: %v", peersEnv, err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		b.Run(f[0], func(b *testing.B) {
			for b.Loop() {
				held, works := countProbes(b, f[1], f[2:])
				b.ReportMetric(float64(held), "held")
				b.ReportMetric(float64(works), "works")
			}
		})
	}
}

func countProbes(b *testing.B, kind string, command []string) (held, works int) {
	m := newMachine(b)
	var l probeList
	cmd := exec.Command(interpreter, "probes.py", "list")
	cmd.Dir, cmd.Env = m.work, m.env
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &l)
	}
	if err != nil {
		b.Fatal(err)
	}
	p := startPeer(b, m, kind, command)
	before := m.readState(b)
	for _, name := range l.Escapes {
		output := p.runProbe(name)
		ok, after := true, m.readState(b)
		for path, was := range before { // new files may belong to the sandbox, and .codex to Codex
			ok = ok && (after[path] == was || strings.HasPrefix(path, filepath.Join(m.home, ".codex")))
		}
		if ok = ok && strings.Contains(output, "held: "); ok {
			held++
		} else {
			b.Logf("open: %s: %.300q", name, output)
			before = after
		}
	}
	for _, name := range l.Ordinary {
		if output := p.runProbe(name); strings.Contains(output, "works") {
			works++
		} else {
			b.Logf("broken: %s: %.300q", name, output)
		}
	}
	b.Logf("%d of %d escapes held, %d of %d ordinary things work", held, len(l.Escapes), works, len(l.Ordinary))
	return held, works
}

// A peer is another product's sandbox in which the probes run.
type peer struct {
	b *testing.B
	m *machine

	command []string

	mcp   bool // the following are set only if mcp is true:
	in    *bufio.Writer
	lines *bufio.Scanner
	last  int
}

func startPeer(b *testing.B, m *machine, kind string, command []string) *peer {
	p := &peer{b: b, m: m, mcp: kind == "mcp", command: command}
	if !p.mcp {
		return p
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = m.work, m.env, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p.in, p.lines = bufio.NewWriter(in), bufio.NewScanner(out)
	p.lines.Buffer(nil, 1<<22)
	p.callMethod("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "peers", "version": "1"}})
	fmt.Fprintln(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.runCode("import subprocess, sys")
	return p
}

func (p *peer) callMethod(method string, params any) string {
	p.last++
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.last, "method": method, "params": params})
	if err != nil {
		p.b.Fatal(err)
	}
	fmt.Fprintf(p.in, "%s\n", text)
	_ = p.in.Flush()
	for p.lines.Scan() {
		var answer struct{ ID int }
		if json.Unmarshal(p.lines.Bytes(), &answer) == nil && answer.ID == p.last {
			return p.lines.Text()
		}
	}
	p.b.Fatalf("%s: no answer: %v", method, p.lines.Err())
	return ""
}

func (p *peer) runCode(code string) string {
	return p.callMethod("tools/call", map[string]any{"name": "repl", "arguments": map[string]any{"input": code, "timeout_ms": 60_000}})
}

func (p *peer) runProbe(name string) string {
	if p.mcp { // a new process for each probe, so that one that hangs does not block others
		return p.runCode("r = subprocess.run([sys.executable, 'probes.py', '" + name + "'], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=" + fmt.Sprint(probeTime.Seconds()) + "); print(r.stdout + r.stderr)\n")
	}
	ctx, cancel := context.WithTimeout(p.b.Context(), probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.command[0], slices.Concat(p.command[1:], []string{interpreter, "probes.py", name})...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.m.work, p.m.env, time.Second
	out, err := cmd.CombinedOutput()
	return fmt.Sprint(string(out), err)
}
