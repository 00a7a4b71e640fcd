package mcpserver_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// newFormSetup returns a setup of Python sessions whose function ask asks the user, as a tool
// server does.
func newFormSetup(t *testing.T, f session.Form) setup {
	t.Helper()
	if spec := python.Spec(python.Options{}); spec.Err != nil {
		t.Skipf("no Python here: %v", spec.Err)
	}
	return setup{
		specs: map[string]func(string) workers.Spec{"python": func(string) workers.Spec { return confinedPython("-") }},
		sup: supervisor.Options{Functions: []supervisor.Function{supervisor.FunctionOf("ask", "Asks.", func(ctx context.Context, _ struct{}) (any, error) {
			answer, err := supervisor.CallerOf(ctx).Ask(ctx, f)
			return map[string]any{"action": string(answer.Action), "content": answer.Content}, err
		})}},
	}
}

var birdForm = session.Form{Server: "birds", Message: "Which bird?", Schema: []byte(`{"type":"object","required":["name"],"properties":{"name":{"type":"string","title":"Name"},"kind":{"type":"string","enum":["owl","wren"]},"eggs":{"type":"integer","default":3},"tame":{"type":"boolean"},"colours":{"type":"array","items":{"type":"string","enum":["red","blue"]}}}}`)}

const askCode = "from turnstone import ask; print(ask())"

func TestForm(t *testing.T) {
	t.Parallel()

	t.Run("the user fills it in through the client", func(t *testing.T) {
		t.Parallel()
		runWithTestUser(t, newFormSetup(t, birdForm), formCapabilities, func(t *testing.T, p *testUser) {
			for _, one := range []struct {
				result map[string]any
				want   string
			}{
				{map[string]any{"action": "accept", "content": map[string]any{"name": "Ada", "eggs": 7}}, "{'action': 'accept', 'content': {'eggs': 7, 'name': 'Ada'}}"},
				{map[string]any{"action": "decline"}, "{'action': 'decline', 'content': None}"},
				{map[string]any{"action": "cancel"}, "{'action': 'cancel', 'content': None}"},
			} {
				call := p.startRepl(map[string]any{"input": askCode})
				q := p.waitQuestion(call)
				wantPart(t, q.Message, `session "main"`, "the server birds asks: Which bird?")
				if q.Mode != "form" || q.Schema.Properties["name"].Title != "Name" || len(q.Schema.Properties) != 5 {
					t.Errorf("got %+v", q)
				}
				wantPart(t, p.waitResult(p.sendAnswer(call, q, one.result)).text(), one.want)
			}
		})
	})

	t.Run("is asked again when the answer does not fit", func(t *testing.T) {
		t.Parallel()
		runWithTestUser(t, newFormSetup(t, birdForm), formCapabilities, func(t *testing.T, p *testUser) {
			call := p.startRepl(map[string]any{"input": askCode})
			call = p.sendAnswer(call, p.waitQuestion(call), map[string]any{"action": "accept", "content": map[string]any{"kind": "owl"}})
			wantPart(t, p.waitResult(call).text(), map[bool]string{true: "the form of the server birds was not answered: Name: it is required", false: `missing properties: ["name"]`}[p.modern])
			p.args = nil
			call = p.startCall("repl_output", nil)
			q := p.waitQuestion(call)
			if p.modern {
				call = p.send("tools/call", map[string]any{"name": "repl_output", "requestState": q.State, "inputResponses": map[string]any{"answer": map[string]any{"action": "decline"}}})
			} else {
				call = p.sendAnswer(call, q, map[string]any{"action": "decline"})
			}
			wantPart(t, p.waitResult(call).text(), "'decline'")
		})
	})

	// A client that can only open pages gets one of this server, which reports invalid fields.
	t.Run("the user fills it in on a page", func(t *testing.T) {
		t.Parallel()
		runWithTestUser(t, newFormSetup(t, birdForm), map[string]any{"elicitation": map[string]any{"url": map[string]any{}}}, func(t *testing.T, p *testUser) {
			call := p.startRepl(map[string]any{"input": askCode})
			q := p.waitQuestion(call)
			wantPart(t, readPage(t, q.URL), "the server birds asks: Which bird?", `name="field-name"`, `<option value="owl"`, `name="field-eggs" value="3"`, `type="checkbox" name="field-colours" value="red"`)
			call = p.sendAnswer(call, q, map[string]any{"action": "accept"})
			wantPart(t, submitPage(t, q.URL, url.Values{"action": {"accept"}, "field-kind": {"wren"}, "field-eggs": {"many"}}), "it is required", "it is not a whole number", `value="many"`, `<option value="wren" selected`)
			wantPart(t, submitPage(t, q.URL, url.Values{"action": {"accept"}, "field-name": {"Ada"}, "field-kind": {"wren"}, "field-eggs": {""}, "field-tame": {"no"}, "field-colours": {"red", "blue"}}), "handed over")
			wantPart(t, p.waitResult(call).text(), "'content': {'colours': ['red', 'blue'], 'kind': 'wren', 'name': 'Ada', 'tame': False}")
			wantPart(t, readPage(t, q.URL), "This question is closed")
		})
	})

	t.Run("the client opens an address that a server names", func(t *testing.T) {
		t.Parallel()
		s := newFormSetup(t, session.Form{Server: "birds", Message: "Sign in", URL: "https://example.org/sign"})
		both := map[string]any{"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}}}
		for _, caps := range []map[string]any{both, formCapabilities} {
			runWithTestUser(t, s, caps, func(t *testing.T, p *testUser) {
				call := p.startRepl(map[string]any{"input": askCode})
				q := p.waitQuestion(call)
				wantPart(t, q.Message, "the server birds asks you to open https://example.org/sign: Sign in")
				if want := map[bool]string{true: "https://example.org/sign"}[q.Mode == "url"]; q.URL != want || len(q.Schema.Properties) > 0 {
					t.Errorf("got %+v", q)
				}
				wantPart(t, p.waitResult(p.sendAnswer(call, q, map[string]any{"action": "accept"})).text(), "'action': 'accept'")
			})
		}
	})

	t.Run("the model cannot answer it", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, func() *setup { s := newFormSetup(t, birdForm); return &s }())
		c.caps = formCapabilities
		c.initialize("2025-11-25")
		p := &testUser{client: c}
		call := p.startRepl(map[string]any{"input": askCode})
		q := p.waitQuestion(call)
		for _, input := range []string{`{"action":"accept","content":{"name":"Eve"}}`, "y", ""} {
			text := c.waitResult(c.startCall("repl", map[string]any{"input": input, "eof": input == "", "timeout_ms": 100})).text()
			wantPart(t, text, "waiting for the user: the server birds asks: Which bird?", "NOT run")
		}
		wantPart(t, p.waitResult(p.sendAnswer(call, q, map[string]any{"action": "decline"})).text(), "'decline'")
		p.wantNowhere("Eve")
	})

	t.Run("is declined with a notice when no user can be asked", func(t *testing.T) {
		t.Parallel()
		s := newFormSetup(t, birdForm)
		c := newInitializedClient(t, &s)
		text := c.runRepl(askCode)
		wantPart(t, text, "'decline'", "no user is available to answer, so this was declined: the server birds asks: Which bird?")
		if strings.Contains(text, "waiting") {
			t.Errorf("got %s", text)
		}
	})
}
