package cli

import (
	"bufio"
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
)

// examineMCP starts our server as a client does, once for each era of the protocol,
// and runs code through it. given are the arguments a client would be told.
func examineMCP(ctx context.Context, lang string, given []string) []finding {
	if !slices.Contains(given, "--lang") {
		given = append(slices.Clone(given), "--lang", lang)
	}
	var found []finding
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
		detail, err := probeMCP(ctx, given, era.meta, era.open)
		if err != nil {
			detail = oneLine(err)
		}
		found = append(found, finding{Name: "protocol " + era.name, OK: err == nil, Detail: detail})
	}
	return found
}

// An mcpProbe is a client of one server.
type mcpProbe struct {
	in    io.Writer
	lines <-chan string
	ctx   context.Context // of the whole probe
	meta  map[string]any
	last  int
}

// mcpCalls is how many calls make the median.
const mcpCalls = 11

func probeMCP(ctx context.Context, args []string, meta map[string]any, open func(*mcpProbe) error) (detail string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	server := exec.CommandContext(ctx, exe, args...)
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
	server.Cancel = in.Close // its end of input is the end of everything it started
	server.WaitDelay = 2 * time.Second
	began := time.Now()
	if err := server.Start(); err != nil {
		return "", err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	p := &mcpProbe{in: in, lines: lines, ctx: ctx, meta: meta}
	detail, err = p.examine(began, open)
	ended := time.Now()
	_ = in.Close() // it may be closed
	for range lines {
	}
	if e := server.Wait(); err == nil && e != nil {
		err = fmt.Errorf("the server ended badly: %w", e)
	}
	if err != nil {
		if said := strings.Join(strings.Fields(complaints.String()), " "); said != "" {
			err = fmt.Errorf("%w (it said: %.300s)", err, said)
		}
		return "", err
	}
	return fmt.Sprintf("%s; it ended %s after its input", detail, milliseconds(time.Since(ended))), nil
}

func (p *mcpProbe) examine(began time.Time, open func(*mcpProbe) error) (string, error) {
	if err := open(p); err != nil {
		return "", err
	}
	var list struct {
		Tools []struct{ Name string }
	}
	if err := p.request("tools/list", map[string]any{}, &list); err != nil {
		return "", err
	}
	started := time.Since(began)
	if len(list.Tools) == 0 {
		return "", errors.New("it lists no tools")
	}
	var took []time.Duration
	for range mcpCalls {
		call := time.Now()
		var result struct {
			Content []struct{ Text string }
			IsError bool
		}
		if err := p.request("tools/call", map[string]any{"name": "repl", "arguments": map[string]any{"input": "1+1"}}, &result); err != nil {
			return "", err
		}
		text := ""
		for _, c := range result.Content {
			text += c.Text
		}
		if result.IsError || !isTwo(text) {
			return "", fmt.Errorf("1+1 gives %.300q", text)
		}
		took = append(took, time.Since(call))
	}
	first := took[0]
	slices.Sort(took)
	return fmt.Sprintf("%d tools listed %s after the start, 1+1 first in %s, then in %s (median of %d)",
		len(list.Tools), milliseconds(started), milliseconds(first), milliseconds(took[len(took)/2]), mcpCalls), nil
}

// isTwo reports whether a reply says 2, and what is beside it in brackets only.
func isTwo(text string) bool {
	two := false
	for line := range strings.Lines(text) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "2", line == "[1] 2": // as R writes it
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
		"clientInfo": map[string]any{"name": "repl doctor", "version": programVersion()},
	}, &result)
	if err == nil && result.ProtocolVersion != "2025-06-18" {
		err = fmt.Errorf("it answered with protocol %q", result.ProtocolVersion)
	}
	if err == nil {
		_, err = io.WriteString(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
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

// request asks and waits for the answer; what comes in between is not for us.
func (p *mcpProbe) request(method string, params map[string]any, result any) error {
	p.last++
	if p.meta != nil {
		params["_meta"] = p.meta
	}
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.last, "method": method, "params": params})
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(message, '\n')); err != nil {
		return fmt.Errorf("%s: the server does not read: %w", method, err)
	}
	for {
		var line string
		var ok bool
		select {
		case line, ok = <-p.lines:
		case <-p.ctx.Done():
			return fmt.Errorf("%s: no answer within %s of the start", method, probeTime)
		}
		if !ok {
			return fmt.Errorf("%s: the server ended without an answer", method)
		}
		var answer struct {
			ID     *int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(line), &answer); err != nil {
			return fmt.Errorf("%s: the server wrote what is no message: %.100q", method, line)
		}
		switch {
		case answer.ID == nil || *answer.ID != p.last:
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", method, answer.Error.Message)
		default:
			return json.Unmarshal(answer.Result, result)
		}
	}
}
