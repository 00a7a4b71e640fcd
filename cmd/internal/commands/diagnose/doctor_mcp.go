package diagnose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// examineMCP starts our server as a client does, once for each protocol era. It runs code through
// it that prints a 2, unless code is empty. clientArgs are the arguments that a client would use.
func examineMCP(ctx context.Context, policy probePolicy, lang, code string, clientArgs []string) []checkResult {
	dir, clean, err := policy.startDir()
	if err != nil {
		return []checkResult{{Name: "the server", Detail: cmdkit.ErrorLine(err)}}
	}
	defer clean()
	clientArgs = append(slices.Clone(clientArgs), policy.serverArgs(dir)...)
	if !slices.Contains(clientArgs, "--lang") {
		clientArgs = append(clientArgs, "--lang", lang)
	}
	var found []checkResult
	for _, era := range []struct {
		name string
		meta map[string]any
		open func(*mcpProbe) error
	}{
		{"2025-06-18", nil, (*mcpProbe).initialize},
		{"2026-07-28", map[string]any{
			"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		}, (*mcpProbe).discover},
	} {
		if ctx.Err() != nil {
			break
		}
		detail, err := probeMCP(ctx, dir, clientArgs, policy.serverEnv(), code, era.meta, era.open)
		if err != nil {
			detail = cmdkit.ErrorLine(err)
		}
		found = append(found, checkResult{Name: "protocol " + era.name, OK: err == nil, Detail: detail})
	}
	return found
}

// An mcpProbe is a test client of one MCP server.
type mcpProbe struct {
	conn *jsonrpc2.Conn
	ctx  context.Context // bounds the whole probe
	meta map[string]any
}

// A stdioConn joins a server's standard output and input.
type stdioConn struct {
	io.ReadCloser
	stdin io.WriteCloser
}

func (c stdioConn) Write(text []byte) (int, error) { return c.stdin.Write(text) }

// Close closes only the server's input; its remaining output is still read.
func (c stdioConn) Close() error { return c.stdin.Close() }

// maxMCPLineBytes bounds a line from the server, which may hold an image.
const maxMCPLineBytes = 16 << 20

// mcpCalls is the number of calls for the median.
const mcpCalls = 11

func probeMCP(ctx context.Context, dir string, args, env []string, code string, meta map[string]any, open func(*mcpProbe) error) (detail string, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmdflags.ProbeTimeout)
	defer cancel()
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	server := exec.CommandContext(ctx, exe, args...)
	server.Dir, server.Env = dir, env
	in, err := server.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return "", err
	}
	var complaints strings.Builder
	server.Stderr = &complaints
	server.Cancel = in.Close                 // end of input ends the server and everything it started
	server.WaitDelay = cmdflags.ProbeTimeout // a server that is killed leaves the files of its sessions
	started := time.Now()
	if err := server.Start(); err != nil {
		return "", err
	}
	conn := jsonrpc2.New(stdioConn{out, in}, &jsonrpc2.Options{MaxLine: maxMCPLineBytes, StallTimeout: cmdflags.ProbeTimeout})
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = conn.Read() // calls return the error
	}()
	p := &mcpProbe{conn: conn, ctx: ctx, meta: meta}
	detail, err = p.measureServer(started, code, open)
	ended := time.Now()
	_ = conn.FinishWriting() // likewise
	<-closed
	if e := server.Wait(); err == nil && e != nil {
		err = fmt.Errorf("the server failed when it stopped: %w", e)
	}
	if err != nil {
		if output := text.OneLine(complaints.String()); output != "" {
			err = fmt.Errorf("%w (it said: %.300s)", err, output)
		}
		return "", err
	}
	return fmt.Sprintf("%s; it stopped %s after its input ended", detail, formatMilliseconds(time.Since(ended))), nil
}

func (p *mcpProbe) measureServer(started time.Time, code string, open func(*mcpProbe) error) (string, error) {
	if err := open(p); err != nil {
		return "", err
	}
	var list struct {
		Tools []struct{ Name string }
	}
	if err := p.request("tools/list", map[string]any{}, &list); err != nil {
		return "", err
	}
	startup := time.Since(started)
	if len(list.Tools) == 0 {
		return "", errors.New("it lists no tools")
	}
	listed := fmt.Sprintf("%d tools listed %s after the start", len(list.Tools), formatMilliseconds(startup))
	if code == "" {
		return listed + "; it was not tested with code, because none is known for this language", nil
	}
	var took []time.Duration
	for range mcpCalls {
		call := time.Now()
		var result struct {
			Content []struct{ Text string }
			IsError bool
		}
		if err := p.request("tools/call", map[string]any{"name": "repl", "arguments": map[string]any{"input": code}}, &result); err != nil {
			return "", err
		}
		text := ""
		for _, c := range result.Content {
			text += c.Text
		}
		if result.IsError || !isReplyTwo(text) {
			return "", fmt.Errorf("%s gives %.300q", code, text)
		}
		took = append(took, time.Since(call))
	}
	first := took[0]
	slices.Sort(took)
	return fmt.Sprintf("%s, %s first in %s, then in %s (median of %d)",
		listed, code, formatMilliseconds(first), formatMilliseconds(took[len(took)/2]), mcpCalls), nil
}

// isReplyTwo reports whether a reply is 2, apart from text in brackets.
func isReplyTwo(text string) bool {
	two := false
	for line := range strings.Lines(text) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "2":
			two = true
		case !strings.HasPrefix(line, "["):
			return false
		}
	}
	return two
}

func (p *mcpProbe) initialize() error {
	var result struct{ ProtocolVersion string }
	err := p.request("initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "repl doctor", "version": cmdkit.ProgramVersion()},
	}, &result)
	if err == nil && result.ProtocolVersion != "2025-06-18" {
		err = fmt.Errorf("it answered with protocol %q", result.ProtocolVersion)
	}
	if err == nil {
		err = p.conn.Notify("notifications/initialized", nil)
	}
	return err
}

func (p *mcpProbe) discover() error {
	var result struct{ SupportedVersions []string }
	err := p.request("server/discover", map[string]any{}, &result)
	if err == nil && !slices.Contains(result.SupportedVersions, "2026-07-28") {
		err = fmt.Errorf("it offers %v", result.SupportedVersions)
	}
	return err
}

// request sends a request and waits for its answer. It skips messages in between.
func (p *mcpProbe) request(method string, params map[string]any, result any) error {
	if p.meta != nil {
		params["_meta"] = p.meta
	}
	answer, err := p.conn.Call(p.ctx, method, params)
	switch {
	case p.ctx.Err() != nil:
		return fmt.Errorf("%s: no answer within %s after the start", method, cmdflags.ProbeTimeout)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: the server ended without an answer", method)
	case err != nil:
		return fmt.Errorf("%s: %w", method, err)
	}
	return json.Unmarshal(answer.Result, result)
}
