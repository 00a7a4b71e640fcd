package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxShownLines bounds the lines that grep and lines show at once, in addition to the
	// client's budget.
	maxShownLines = 400

	// maxLineChars bounds one shown line.
	maxLineChars = 2_000
)

// handleOutput implements the tool repl_output. It waits for a turn, or reads old output without
// moving the caller's cursor.
func (s *server) handleOutput(ctx context.Context, r *toolRequest, arguments json.RawMessage) *mcp.CallToolResult {
	args, err := decodeArguments[outputArgs](r, arguments)
	wait, waitErr := r.boundedTimeout("wait_ms", args.WaitMS)
	if err = errors.Join(err, waitErr); err != nil {
		return errorResult(err)
	}
	if r.sdk.Params.RequestState != "" {
		return s.resumeCall(ctx, r, time.Now().Add(wait))
	}
	modes := 0
	for _, isSet := range []bool{args.Grep != "", args.Lines != "", args.After != nil, args.Until != ""} {
		if isSet {
			modes++
		}
	}
	if modes > 1 {
		return errorResult(errors.New("use only one of until, grep, lines and after"))
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
		return errorResult(err)
	}
	sc.call.sessionTicket.Leave()
	after, _ := sc.caller.cursorAndRequest()
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
		r, err := sc.session.Wait(waiting, 0, o)
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
		return errorResult(err)
	}
	output, err := sc.session.Output(ctx, session.OutputQuery{Grep: pattern, Max: maxShownLines + 1})
	if err != nil {
		return errorResult(err)
	}
	found := output.Lines
	if len(found) == 0 {
		return textResult(fmt.Sprintf("[none of %d lines matches]", output.Total))
	}
	for i := range found {
		found[i].Text = excerptAround(found[i].Text, re)
	}
	shown := newNumberedLines(found[:min(len(found), maxShownLines)], sc.call.replyBudget())
	if shown.count < len(found) {
		last := found[shown.count-1].Number
		return textResult(fmt.Sprintf("%s\n[more lines match after line %d: use a narrower grep, or lines]", shown.text, last))
	}
	return textResult(shown.text)
}

func (sc *sessionCall) showLines(ctx context.Context, which string) *mcp.CallToolResult {
	count, err := sc.session.Output(ctx, session.OutputQuery{})
	if err != nil {
		return errorResult(err)
	}
	total := count.Total
	if line, from, ok := parseLinePosition(which); ok && line <= total {
		return sc.showLineFrom(ctx, line, from)
	}
	from, to, err := parseLineRange(which, total)
	if err != nil {
		return errorResult(err)
	}
	if from > total {
		return textResult(fmt.Sprintf("[the output has %d lines]", total))
	}
	to = min(to, total)
	output, err := sc.session.Output(ctx, session.OutputQuery{From: from, To: min(to, from+maxShownLines-1)})
	if err != nil {
		return errorResult(err)
	}
	shown := newNumberedLines(output.Lines, sc.call.replyBudget())
	if last := from + shown.count - 1; last < to {
		return textResult(fmt.Sprintf("%s\n[lines %d-%d follow]", shown.text, last+1, to))
	}
	return textResult(shown.text)
}

// showLineFrom shows one line from a character on.
func (sc *sessionCall) showLineFrom(ctx context.Context, number, from int) *mcp.CallToolResult {
	output, err := sc.session.Output(ctx, session.OutputQuery{From: number, To: number})
	if err != nil {
		return errorResult(err)
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
	shown := rest[:min(len(rest), most.Chars-reservedStateChars)]
	for most.Bytes > 0 && len(string(shown)) > most.Bytes-reservedStateChars {
		shown = shown[:len(shown)*3/4]
	}
	text := fmt.Sprintf("%d: %s", number, string(shown))
	if next := from + len(shown); next <= len(line) {
		text += fmt.Sprintf("\n[%s]", continuationHint(number, next, len(line)))
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

// continuationHint says how to read the rest of a line.
func continuationHint(number, next, all int) string {
	return fmt.Sprintf(`%d more characters: lines "%d:%d"`, all-next+1, number, next)
}

// A numberedLines is the text of the numbered lines that fit the budget.
type numberedLines struct {
	text  string
	count int // of the lines, at least one
}

func newNumberedLines(lines []timeline.Line, most clientprofile.TextBudget) numberedLines {
	var b strings.Builder
	chars := reservedStateChars
	for i, l := range lines {
		text := fmt.Sprintf("%d: %s", l.Number, shortenLine(l))
		chars += utf8.RuneCountInString(text) + 1
		full := chars > most.Chars || most.Bytes > 0 && b.Len()+len(text) > most.Bytes-reservedStateChars
		if i > 0 && full {
			return numberedLines{b.String(), i}
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	return numberedLines{b.String(), len(lines)}
}

// excerptAround cuts the start of a very long line, up to shortly before the match.
func excerptAround(s string, re *regexp.Regexp) string {
	const before = 200 // bytes
	at := re.FindStringIndex(s)
	if at == nil || at[0] <= before || len(s) <= maxLineChars {
		return s
	}
	return "…" + strings.ToValidUTF8(s[at[0]-before:], "")
}

// shortenLine cuts a very long line. If the line is shown from its start, it adds how to read the
// rest.
func shortenLine(l timeline.Line) string {
	chars := utf8.RuneCountInString(l.Text)
	if chars <= maxLineChars {
		return l.Text
	}
	begin := text.Shorten(l.Text, maxLineChars)
	if strings.HasPrefix(begin, "…") { // the text around a match
		return begin
	}
	return begin + " [" + continuationHint(l.Number, maxLineChars+1, chars) + "]"
}
