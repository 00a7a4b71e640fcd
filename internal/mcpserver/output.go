package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxShownLines bounds the lines that grep and lines show at once, in addition to the
	// client's budget.
	maxShownLines = 400
)

// handleOutput implements the tool repl_output. It waits for a turn, or reads old output without
// moving the caller's cursor.
func (s *server) handleOutput(ctx context.Context, r *toolRequest, arguments json.RawMessage) *mcp.CallToolResult {
	args, err := decodeArguments[outputArgs](r, arguments)
	wait, waitErr := r.boundedTimeout("wait_ms", args.WaitMS)
	if err = errors.Join(err, waitErr); err != nil {
		return s.errorResult(err)
	}
	if r.sdk.Params.RequestState != "" {
		return s.resumeCall(ctx, r, time.Now().Add(wait))
	}
	modes := 0
	for _, isSet := range []bool{args.Grep != "", args.Lines != "", args.After != nil, args.Until != "", args.Screen} {
		if isSet {
			modes++
		}
	}
	if modes > 1 {
		return s.errorResult(errors.New("use only one of until, grep, lines, screen and after"))
	}
	a, result := s.newSessionCall(ctx, r, args.Session, time.Now().Add(wait), true)
	if a == nil {
		return result
	}
	switch {
	case args.Grep != "":
		return a.grepOutput(ctx, args.Grep)
	case args.Lines != "":
		return a.showLines(ctx, args.Lines)
	case args.After != nil:
		return a.repeatOutput(ctx, timeline.Seq(*args.After))
	case args.Until != "":
		return a.pollUntilMatch(ctx, args.Until)
	case args.Screen:
		return a.showScreen(ctx)
	}
	return a.pollTurn(ctx)
}

// repeatOutput shows everything after an event, even what the caller has already received.
func (sc *sessionCall) repeatOutput(ctx context.Context, after timeline.Seq) *mcp.CallToolResult {
	r, err := sc.session.Wait(ctx, 0, &session.WaitOptions{Poll: true, After: after})
	if err != nil {
		return sc.sessionErrorResult(ctx, err)
	}
	return sc.renderReply(ctx, r)
}

// compilePattern compiles an argument that is a regular expression.
func compilePattern(name, pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(pattern)
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("%s is not a regular expression: %s in %q (RE2 syntax, without lookaround)", name, bad.Code, bad.Expr)
	}
	return re, err
}

// pollUntilMatch is pollTurn that also ends at a matching line that is new for the caller. The
// line may still be incomplete.
func (sc *sessionCall) pollUntilMatch(ctx context.Context, pattern string) *mcp.CallToolResult {
	re, err := compilePattern("until", pattern)
	if err != nil {
		return sc.errorResult(err)
	}
	sc.call.sessionTicket.Leave()
	sc.wantsMatch = true
	after, _ := sc.caller.CursorAndRequest()
	searching, stop := context.WithCancel(ctx)
	found, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if sc.waitForMatch(searching, after, re) {
			close(found)
		}
	}()
	defer func() { stop(); <-ended }()
	return sc.awaitReply(ctx, func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		waiting, stop := context.WithCancel(ctx)
		defer stop()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			select {
			case <-found:
				stop()
			case <-waiting.Done():
			}
		}()
		r, err := sc.waitForNews(waiting, o)
		stop()
		<-stopped
		select {
		case <-found:
			if ctx.Err() == nil { // the reply may lack the line
				sc.foundMatch = true
				return sc.currentReply(ctx, o)
			}
		default:
		}
		return r, err
	})
}

// waitForMatch waits for a matching line after a cursor. It returns false if ctx ends.
func (sc *sessionCall) waitForMatch(ctx context.Context, after timeline.Seq, re *regexp.Regexp) bool {
	var lines timeline.LineSplitter
	for e := range sc.session.Events(ctx, after) {
		text, ok := e.Body.(timeline.Text)
		if ok && (slices.ContainsFunc(lines.Add(text), re.MatchString) || lines.OpenLine() != "" && re.MatchString(lines.OpenLine())) {
			return true
		}
	}
	return false
}

func (sc *sessionCall) grepOutput(ctx context.Context, pattern string) *mcp.CallToolResult {
	re, err := compilePattern("grep", pattern)
	if err != nil {
		return sc.errorResult(err)
	}
	output, err := sc.session.Output(ctx, session.OutputQuery{Grep: pattern, Max: maxShownLines + 1})
	if err != nil {
		return sc.errorResult(err)
	}
	found := output.Lines
	if len(found) == 0 {
		return textResult(fmt.Sprintf("[none of %d lines matches]", output.Total))
	}
	for i := range found {
		found[i].Text = reply.ExcerptAround(found[i].Text, re)
	}
	shown := reply.NumberLines(found[:min(len(found), maxShownLines)], sc.call.replyBudget())
	if shown.Count < len(found) {
		last := found[shown.Count-1].Number
		return textResult(fmt.Sprintf("%s\n[more lines match after line %d: use a narrower grep, or lines]", shown.Text, last))
	}
	return textResult(shown.Text)
}

func (sc *sessionCall) showLines(ctx context.Context, which string) *mcp.CallToolResult {
	count, err := sc.session.Output(ctx, session.OutputQuery{})
	if err != nil {
		return sc.errorResult(err)
	}
	total := count.Total
	if line, from, ok := parseLinePosition(which); ok && line <= total {
		return sc.showLineFrom(ctx, line, from)
	}
	from, to, err := parseLineRange(which, total)
	if err != nil {
		return sc.errorResult(err)
	}
	if from > total {
		return textResult(fmt.Sprintf("[the output has %d lines]", total))
	}
	to = min(to, total)
	output, err := sc.session.Output(ctx, session.OutputQuery{From: from, To: min(to, from+maxShownLines-1)})
	if err != nil {
		return sc.errorResult(err)
	}
	shown := reply.NumberLines(output.Lines, sc.call.replyBudget())
	if last := from + shown.Count - 1; last < to {
		return textResult(fmt.Sprintf("%s\n[lines %d-%d follow]", shown.Text, last+1, to))
	}
	return textResult(shown.Text)
}

// showLineFrom shows one line from a character on.
func (sc *sessionCall) showLineFrom(ctx context.Context, number, from int) *mcp.CallToolResult {
	output, err := sc.session.Output(ctx, session.OutputQuery{From: number, To: number})
	if err != nil {
		return sc.errorResult(err)
	}
	if len(output.Lines) == 0 {
		return textResult(fmt.Sprintf("[the output has %d lines]", output.Total))
	}
	line := []rune(output.Lines[0].Text)
	if from > len(line) {
		return textResult(fmt.Sprintf("[line %d has %d characters here; the rest, if any, is in %s]", number, len(line), sc.fullLineSource()))
	}
	most := sc.call.replyBudget()
	rest := line[from-1:]
	shown := rest[:min(len(rest), most.Chars-reply.ReservedStateChars)]
	for most.Bytes > 0 && len(string(shown)) > most.Bytes-reply.ReservedStateChars {
		shown = shown[:len(shown)*3/4]
	}
	text := fmt.Sprintf("%d: %s", number, string(shown))
	if next := from + len(shown); next <= len(line) {
		text += fmt.Sprintf("\n[%s]", reply.ContinuationHint(number, next, len(line)))
	}
	return textResult(text)
}

// fullLineSource returns where to find the whole of a line that is too long for timeline queries.
func (sc *sessionCall) fullLineSource() string {
	if sc.session.IsRemote {
		return timeline.OutputName + " there; this command fetches it: " + sc.session.FetchCommand
	}
	return sc.session.OutputPath()
}
