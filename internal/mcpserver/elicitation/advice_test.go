package elicitation

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/session"
)

// newAskingCall returns a call of a client that can ask its user in these ways, such as "form url".
func newAskingCall(a *Asker, ways string) *AskingCall {
	can := map[string]any{}
	if ways != "none" {
		modes := map[string]any{}
		for _, way := range strings.Fields(ways) {
			modes[way] = map[string]any{}
		}
		can["elicitation"] = modes
	}
	return &AskingCall{
		Asker: a, Questions: NewSessionQuestions(func(string) {}), Tool: new(mcptransport.ToolCall), Session: new(backend.SessionHandle), SessionName: "main",
		Request: &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Meta: mcp.Meta{
			"io.modelcontextprotocol/protocolVersion":    mcptransport.StatelessVersion,
			"io.modelcontextprotocol/clientCapabilities": can,
		}}},
	}
}

// An askingSession has an open input request, or none.
type askingSession struct {
	session.Session
	open *session.InputRequest
}

func (s askingSession) Info(context.Context) (session.Info, error) {
	return session.Info{InputRequest: s.open}, nil
}

func TestAskingCall_QuestionKind(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		ways       string
		secret     bool
		hasBrowser bool
		want       questionKind
	}{
		{"none", false, true, questionNone},
		{"", false, true, questionForm}, // from before there were modes
		{"form", true, true, questionForm},
		{"form url", false, true, questionForm},
		{"form url", true, true, questionPage},
		{"form url", true, false, questionForm},
		{"url", false, false, questionPage},
	} {
		c := newAskingCall(&Asker{HasBrowser: row.hasBrowser}, row.ways)
		if got := c.questionKind(&session.InputRequest{Secret: row.secret}); got != row.want {
			t.Errorf("%+v: got %d", row, got)
		}
	}
}

func TestAskingCall_Advice(t *testing.T) {
	t.Parallel()
	secret := &session.InputRequest{Secret: true}
	permission := &session.InputRequest{Permission: &session.PermissionRequest{}}
	for name, row := range map[string]struct {
		ways   string
		change func(c *AskingCall)
		w      *session.InputRequest
		want   string
	}{
		"the client asks":              {"form", func(*AskingCall) {}, secret, "repl_output has them asked"},
		"the user is being asked":      {"form", func(c *AskingCall) { c.Questions.setQuestion(new(openQuestion)) }, secret, "the user is being asked"},
		"the user attaches":            {"none", func(c *AskingCall) { c.Session.AttachCommand = "repl attach main" }, secret, "type the answer there: repl attach main"},
		"nobody can answer":            {"none", func(*AskingCall) {}, secret, "this client cannot ask"},
		"no answer is allowed":         {"form", func(c *AskingCall) { c.Asker.DeniesInput = true }, secret, "gives it end of file"},
		"the end was read too often":   {"form", func(c *AskingCall) { c.Asker.DeniesInput, c.deniedReads = true, maxDeniedReads }, secret, "has read the end of file 100 times"},
		"only the user may allow":      {"form", func(*AskingCall) {}, permission, "only the user may decide"},
		"a permission without anybody": {"none", func(*AskingCall) {}, permission, ": repl_output continues"},
	} {
		c := newAskingCall(new(Asker), row.ways)
		row.change(c)
		if got := c.Advice(row.w); !strings.Contains(got, row.want) {
			t.Errorf("%s: got %q, want %q", name, got, row.want)
		}
	}
}

func TestAskingCall_Resolve(t *testing.T) {
	t.Parallel()
	w := &session.InputRequest{ID: 7, Secret: true}

	t.Run("leaves a request open that nobody can answer", func(t *testing.T) {
		t.Parallel()
		v := newAskingCall(new(Asker), "none").Resolve(context.Background(), w, true, time.Now().Add(time.Minute))
		if v.Next != StepReply || v.Waited != 0 || len(v.Notices) > 0 {
			t.Errorf("got %+v", v)
		}
	})

	t.Run("returns the question if the server cannot ask", func(t *testing.T) {
		t.Parallel()
		c := newAskingCall(new(Asker), "form")
		c.Session.Session = askingSession{open: w}
		v := c.Resolve(context.Background(), w, false, time.Now().Add(time.Minute))
		if v.Next != StepReturn || v.Question.Requests()[answerKey] == nil {
			t.Errorf("got %+v", v)
		}
	})

	t.Run("asks nothing about a request that is over", func(t *testing.T) {
		t.Parallel()
		for _, open := range []*session.InputRequest{nil, {ID: 8, Secret: true}} {
			c := newAskingCall(new(Asker), "form")
			c.Session.Session = askingSession{open: open}
			if v := c.Resolve(context.Background(), w, false, time.Now().Add(time.Minute)); v.Next != StepContinue || v.Question != nil {
				t.Errorf("with %+v: got %+v", open, v)
			}
		}
	})

	t.Run("asks nobody after the deadline", func(t *testing.T) {
		t.Parallel()
		if v := newAskingCall(new(Asker), "form").Resolve(context.Background(), w, false, time.Now()); v.Next != StepReply {
			t.Errorf("got %+v", v)
		}
	})

	t.Run("waits for one question at a time", func(t *testing.T) {
		t.Parallel()
		c := newAskingCall(new(Asker), "form")
		c.Questions.setQuestion(&openQuestion{requestID: w.ID})
		c.Questions.beginWait()
		if v := c.Resolve(context.Background(), w, false, time.Now().Add(time.Minute)); v.Next != StepReply {
			t.Errorf("got %+v", v)
		}
	})
}

func TestSessionQuestions(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		isAwaited bool
		want      string
	}{"a call waits": {true, ""}, "no call waits": {false, "the user's answer came too late and was not used"}} {
		var left string
		s := NewSessionQuestions(func(text string) { left += text })
		o := &openQuestion{requestID: 7, done: make(chan struct{})}
		s.setQuestion(o)
		s.setQuestionAwaited(o, row.isAwaited)
		s.finishQuestion(o, questionOutcome{verdict: over.withNotice(answerTooLate)})
		if left != row.want || !o.isDone() || s.openQuestionFor(7) != nil {
			t.Errorf("%s: left the notice %q, want %q", name, left, row.want)
		}
	}
}
