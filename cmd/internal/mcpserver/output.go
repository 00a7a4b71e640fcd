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
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxLines bounds what grep and lines show at once, beside the client's budget.
	maxLines = 400

	// maxLineChars bounds one shown line.
	maxLineChars = 2_000
)

// output returns the tool repl_output: it waits for a turn, or reads old output without moving the
// caller's cursor.
func (s *server) output(ctx context.Context, r *request, arguments json.RawMessage) *mcp.CallToolResult {
	args, err := decode[outputArgs](r, arguments)
	wait, waitErr := r.waitTime("wait_ms", args.WaitMS)
	if err = errors.Join(err, waitErr); err != nil {
		return failure(err)
	}
	if r.sdk.Params.RequestState != "" {
		return s.resumeCall(ctx, r, time.Now().Add(wait))
	}
	ways := 0
	for _, given := range []bool{args.Grep != "", args.Lines != "", args.After != nil, args.Until != ""} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		return failure(errors.New("until, grep, lines and after are four ways to look: use one"))
	}
	a, result := s.askAbout(ctx, r, args.Session, time.Now().Add(wait), true)
	if a == nil {
		return result
	}
	switch {
	case args.Grep != "":
		return a.grep(ctx, args.Grep)
	case args.Lines != "":
		return a.lines(ctx, args.Lines)
	case args.After != nil:
		return a.again(ctx, timeline.Seq(*args.After))
	case args.Until != "":
		return a.pollUntil(ctx, args.Until)
	}
	return a.poll(ctx)
}

// again shows everything after an event, even if the caller has it already.
func (a *sessionCall) again(ctx context.Context, after timeline.Seq) *mcp.CallToolResult {
	r, err := a.session.Wait(ctx, 0, &session.WaitOptions{Poll: true, After: after})
	if err != nil {
		return a.sessionFailure(ctx, err)
	}
	return a.render(ctx, r)
}

// expression returns an argument that is a regular expression.
func expression(name, pattern string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(pattern)
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("%s is not a regular expression: %s in %q (RE2 syntax, without lookaround)", name, bad.Code, bad.Expr)
	}
	return re, err
}

// pollUntil returns poll that also ends when a line matches, finished or not, that is new for the
// caller.
func (a *sessionCall) pollUntil(ctx context.Context, pattern string) *mcp.CallToolResult {
	re, err := expression("until", pattern)
	if err != nil {
		return failure(err)
	}
	a.call.lane.Leave()
	after, _ := a.view.knows()
	looking, stop := context.WithCancel(ctx)
	found, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if a.matches(looking, after, re) {
			close(found)
		}
	}()
	defer func() { stop(); <-ended }()
	return a.await(ctx, func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		waiting, stop := context.WithCancel(ctx)
		defer stop()
		over := make(chan struct{})
		go func() {
			defer close(over)
			select {
			case <-found:
				stop()
			case <-waiting.Done():
			}
		}()
		r, err := a.session.Wait(waiting, 0, o)
		stop()
		<-over
		select {
		case <-found:
			if ctx.Err() == nil { // the reply may lack the line
				a.found = true
				return a.now(ctx, o)
			}
		default:
		}
		return r, err
	})
}

// matches waits for a line after a cursor that matches. It returns false when ctx ends.
func (a *sessionCall) matches(ctx context.Context, after timeline.Seq, re *regexp.Regexp) bool {
	var lines timeline.LineSplitter
	for e := range a.session.Events(ctx, after) {
		text, ok := e.Body.(timeline.Text)
		if ok && (slices.ContainsFunc(lines.Add(text), re.MatchString) || lines.OpenLine() != "" && re.MatchString(lines.OpenLine())) {
			return true
		}
	}
	return false
}

func (a *sessionCall) grep(ctx context.Context, pattern string) *mcp.CallToolResult {
	re, err := expression("grep", pattern)
	if err != nil {
		return failure(err)
	}
	output, err := a.session.Output(ctx, session.OutputQuery{Grep: pattern, Max: maxLines + 1})
	if err != nil {
		return failure(err)
	}
	found := output.Lines
	if len(found) == 0 {
		return plain(fmt.Sprintf("[no line of %d matches]", output.Total))
	}
	for i := range found {
		found[i].Text = around(found[i].Text, re)
	}
	shown := listing(found[:min(len(found), maxLines)], a.call.budget())
	if shown.count < len(found) {
		last := found[shown.count-1].Number
		return plain(fmt.Sprintf("%s\n[more lines match after line %d: use a narrower grep, or lines]", shown.text, last))
	}
	return plain(shown.text)
}

func (a *sessionCall) lines(ctx context.Context, which string) *mcp.CallToolResult {
	count, err := a.session.Output(ctx, session.OutputQuery{})
	if err != nil {
		return failure(err)
	}
	total := count.Total
	if line, from, ok := placeInLine(which); ok && line <= total {
		return a.within(ctx, line, from)
	}
	from, to, err := lineRange(which, total)
	if err != nil {
		return failure(err)
	}
	if from > total {
		return plain(fmt.Sprintf("[there are %d lines]", total))
	}
	to = min(to, total)
	output, err := a.session.Output(ctx, session.OutputQuery{From: from, To: min(to, from+maxLines-1)})
	if err != nil {
		return failure(err)
	}
	shown := listing(output.Lines, a.call.budget())
	if last := from + shown.count - 1; last < to {
		return plain(fmt.Sprintf("%s\n[lines %d-%d are left]", shown.text, last+1, to))
	}
	return plain(shown.text)
}

// within shows one line from a character on.
func (a *sessionCall) within(ctx context.Context, number, from int) *mcp.CallToolResult {
	output, err := a.session.Output(ctx, session.OutputQuery{From: number, To: number})
	if err != nil {
		return failure(err)
	}
	if len(output.Lines) == 0 {
		return plain(fmt.Sprintf("[there are %d lines]", output.Total))
	}
	line := []rune(output.Lines[0].Text)
	if from > len(line) {
		return plain(fmt.Sprintf("[line %d has %d characters here; its rest, if there is one, is in %s]", number, len(line), a.restOfLine()))
	}
	most := a.call.budget()
	rest := line[from-1:]
	shown := rest[:min(len(rest), most.chars-stateChars)]
	for most.bytes > 0 && len(string(shown)) > most.bytes-stateChars {
		shown = shown[:len(shown)*3/4]
	}
	text := fmt.Sprintf("%d: %s", number, string(shown))
	if next := from + len(shown); next <= len(line) {
		text += fmt.Sprintf("\n[%s]", goesOn(number, next, len(line)))
	}
	return plain(text)
}

// restOfLine names what has the whole of a line that is too long for the timeline's queries.
func (a *sessionCall) restOfLine() string {
	if a.session.Away {
		return timeline.OutputName + " there, which this command brings: " + a.session.FilesByHand
	}
	return a.session.OutputPath()
}

// goesOn says how to read on in a line.
func goesOn(number, next, all int) string {
	return fmt.Sprintf(`%d more characters: lines "%d:%d"`, all-next+1, number, next)
}

// A listed is the text of numbered lines, within the bounds.
type listed struct {
	text  string
	count int // of the lines, one at least
}

func listing(lines []timeline.Line, most budget) listed {
	var b strings.Builder
	chars := stateChars
	for i, l := range lines {
		text := fmt.Sprintf("%d: %s", l.Number, shorten(l))
		chars += utf8.RuneCountInString(text) + 1
		full := chars > most.chars || most.bytes > 0 && b.Len()+len(text) > most.bytes-stateChars
		if i > 0 && full {
			return listed{b.String(), i}
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	return listed{b.String(), len(lines)}
}

// around returns a very long line from shortly before what matches.
func around(s string, re *regexp.Regexp) string {
	const before = 200 // bytes
	at := re.FindStringIndex(s)
	if at == nil || at[0] <= before || len(s) <= maxLineChars {
		return s
	}
	return "…" + strings.ToValidUTF8(s[at[0]-before:], "")
}

// shorten cuts a very long line, and says how to read on if it is shown from its beginning.
func shorten(l timeline.Line) string {
	if utf8.RuneCountInString(l.Text) <= maxLineChars {
		return l.Text
	}
	line := []rune(l.Text)
	text := string(line[:maxLineChars]) + "…"
	if line[0] == '…' { // the text around a match
		return text
	}
	return text + " [" + goesOn(l.Number, maxLineChars+1, len(line)) + "]"
}
