//go:build linux

package clients

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// A toolCall is a call that the model makes to a tool of repl mcp, or to a tool of the agent.
type toolCall struct {
	tool      string
	arguments map[string]any
	joined    bool // made in the same turn of the model as the call before
}

// replCall returns a call of the tool repl.
func replCall(input string) toolCall {
	return toolCall{tool: "repl", arguments: map[string]any{"input": input}}
}

// joinCalls returns calls that the model makes in one turn.
func joinCalls(calls ...toolCall) []toolCall {
	for i := range calls {
		calls[i].joined = i > 0
	}
	return calls
}

// A toolResult is the result of a call that an agent sends to the model.
type toolResult struct {
	text   string
	images [][]byte
}

// A modelRequest is a parsed request from an agent to the model.
type modelRequest struct {
	tools   map[string]json.RawMessage // by the agent's own names
	results []toolResult               // of all calls so far, in order
}

// An apiDialect is the API between an agent and its model.
type apiDialect interface {
	// readRequest parses a request. ok is false if it does not ask for an answer.
	readRequest(path string, body []byte) (r modelRequest, ok bool, err error)

	// writeAnswer calls tools, by the agent's names, or answers "done" without calls.
	writeAnswer(w http.ResponseWriter, r *http.Request, calls []toolCall)
}

// A fakeModel answers each request with the next call of its script, and the calls joined to it.
type fakeModel struct {
	t        testing.TB
	dialect  apiDialect
	toolName func(tool string) string // the agent's name of a tool
	url      string

	mu        sync.Mutex
	calls     []toolCall // still to make
	wanted    string     // the tool of the next call, or of the last one
	askCount  int        // requests that offered it
	readBytes int        // total size of these requests
	latest    modelRequest
	requests  []string // unchanged, for debugging a failed test
}

// newFakeModel serves a model on the loopback until the test ends.
func newFakeModel(t testing.TB, d apiDialect, named func(string) string, steps ...toolCall) *fakeModel {
	m := &fakeModel{t: t, dialect: d, toolName: named, calls: steps, wanted: "repl"}
	server := httptest.NewServer(m)
	m.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if t.Failed() {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, r := range m.requests {
				t.Log(r)
			}
		}
	})
	return m
}

func (m *fakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent has closed the connection
	}
	req, ok, err := m.dialect.readRequest(r.URL.Path, body)
	if err != nil {
		m.t.Errorf("%s: %v in %.2000s", r.URL.Path, err, body)
	}
	var calls []toolCall
	m.mu.Lock()
	if len(m.calls) > 0 {
		m.wanted = m.calls[0].tool
	}
	if _, offered := req.tools[m.toolName(m.wanted)]; ok && offered {
		m.askCount++
		m.readBytes += len(body)
		m.latest = req
		for len(m.calls) > 0 && (len(calls) == 0 || m.calls[0].joined) {
			calls = append(calls, toolCall{tool: m.toolName(m.calls[0].tool), arguments: m.calls[0].arguments})
			m.calls = m.calls[1:]
		}
		m.logRequest("the last of %d results: %q", len(req.results), resultTexts(req.results[max(0, len(req.results)-1):]))
		m.logRequest("calls: %v", calls)
	}
	m.mu.Unlock()
	if !ok {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
		return
	}
	m.dialect.writeAnswer(w, r, calls)
}

func (m *fakeModel) logRequest(format string, args ...any) {
	m.requests = append(m.requests, fmt.Sprintf("%.4000s", fmt.Sprintf(format, args...)))
}

// addCall lets the model make one more call.
func (m *fakeModel) addCall(c toolCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, c)
}

// countAsks returns the number of requests that offered the wanted tool.
func (m *fakeModel) countAsks() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.askCount
}

// seenResults returns the results that the model has received.
func (m *fakeModel) seenResults() []toolResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest.results
}

// toolDefinition returns the definition of a tool as the model receives it.
func (m *fakeModel) toolDefinition(tool string) json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest.tools[m.toolName(tool)]
}

// waitResult waits for the result of the n-th call, from 0.
func (m *fakeModel) waitResult(t testing.TB, n int) toolResult {
	t.Helper()
	if !wait.Within(testTimeout, func() bool { return len(m.seenResults()) > n }) {
		t.Fatalf("the model received no result of call %d; it has %q", n, resultTexts(m.seenResults()))
	}
	return m.seenResults()[n]
}

func resultTexts(results []toolResult) []string {
	var all []string
	for _, r := range results {
		all = append(all, r.text)
	}
	return all
}

// writeEvents writes an answer as server-sent events.
func writeEvents(w http.ResponseWriter, named bool, values ...map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	var b bytes.Buffer
	for _, v := range values {
		if named {
			fmt.Fprintf(&b, "event: %s\n", v["type"])
		}
		fmt.Fprintf(&b, "data: %s\n\n", encodeJSON(v))
	}
	_, _ = w.Write(b.Bytes())
}

func encodeJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible for the values of this package
	}
	return string(text)
}

// newID returns an identifier in the form of the services.
func newID(kind string) string { return kind + "_" + rand.Text() }

func decodeBase64(text string) []byte {
	data, _ := base64.StdEncoding.DecodeString(text) // a test that checks it will notice
	return data
}

type jsonObject = map[string]any

// anthropicDialect is the Messages API.
type anthropicDialect struct{}

func (anthropicDialect) readRequest(path string, body []byte) (r modelRequest, ok bool, err error) {
	if !strings.HasSuffix(path, "/messages") {
		return r, false, nil
	}
	var sent struct {
		Tools    []json.RawMessage
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return r, false, err
	}
	if r.tools, err = toolsByName(sent.Tools); err != nil {
		return r, false, err
	}
	for _, message := range sent.Messages {
		for _, block := range contentParts(message.Content) {
			if block.Type == "tool_result" {
				var got toolResult
				for _, part := range contentParts(block.Content) {
					if part.Type == "image" {
						got.images = append(got.images, part.Source.Data)
					}
					got.text += part.Text
				}
				r.results = append(r.results, got)
			}
		}
	}
	return r, true, nil
}

func (anthropicDialect) writeAnswer(w http.ResponseWriter, _ *http.Request, calls []toolCall) {
	events := []jsonObject{{"type": "message_start", "message": jsonObject{
		"id": newID("msg"), "type": "message", "role": "assistant", "model": "stub", "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": jsonObject{"input_tokens": 1, "output_tokens": 1}}}}
	say := func(i int, block, delta jsonObject) {
		events = append(events,
			jsonObject{"type": "content_block_start", "index": i, "content_block": block},
			jsonObject{"type": "content_block_delta", "index": i, "delta": delta},
			jsonObject{"type": "content_block_stop", "index": i})
	}
	stop := "tool_use"
	for i, c := range calls {
		say(i, jsonObject{"type": "tool_use", "id": newID("toolu"), "name": c.tool, "input": jsonObject{}},
			jsonObject{"type": "input_json_delta", "partial_json": encodeJSON(c.arguments)})
	}
	if len(calls) == 0 {
		stop = "end_turn"
		say(0, jsonObject{"type": "text", "text": ""}, jsonObject{"type": "text_delta", "text": "done"})
	}
	writeEvents(w, true, append(events,
		jsonObject{"type": "message_delta", "delta": jsonObject{"stop_reason": stop, "stop_sequence": nil}, "usage": jsonObject{"output_tokens": 1}},
		jsonObject{"type": "message_stop"})...)
}

// openaiDialect is the Responses API.
type openaiDialect struct{}

func (openaiDialect) readRequest(path string, body []byte) (r modelRequest, ok bool, err error) {
	if !strings.HasSuffix(path, "/responses") {
		return r, false, nil
	}
	var sent struct {
		Tools []json.RawMessage
		Input []struct {
			Type   string
			Output json.RawMessage
			Tools  []json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return r, false, err
	}
	if r.tools, err = toolsByName(sent.Tools); err != nil {
		return r, false, err
	}
	for _, item := range sent.Input {
		switch item.Type {
		case "tool_search_output":
			found, err := toolsByName(item.Tools)
			if err != nil {
				return r, false, err
			}
			maps.Copy(r.tools, found)
			r.results = append(r.results, toolResult{text: strings.Join(slices.Sorted(maps.Keys(found)), " ")})
		case "function_call_output":
			var got toolResult
			for _, part := range contentParts(item.Output) {
				if image, ok := strings.CutPrefix(part.ImageURL, "data:image/png;base64,"); ok {
					got.images = append(got.images, decodeBase64(image))
				}
				got.text += part.Text
			}
			r.results = append(r.results, got)
		}
	}
	return r, true, nil
}

func (openaiDialect) writeAnswer(w http.ResponseWriter, _ *http.Request, calls []toolCall) {
	id := newID("resp")
	items := []jsonObject{}
	for _, c := range calls {
		item := jsonObject{"type": "function_call", "id": newID("fc"), "call_id": newID("call"), "name": c.tool, "arguments": encodeJSON(c.arguments)}
		if space, name, ok := strings.Cut(c.tool, namespaceEnd); ok {
			item["namespace"], item["name"] = space, name
		}
		if c.tool == searchTool {
			item = jsonObject{"type": "tool_search_call", "id": newID("ts"), "call_id": newID("call"), "execution": "client", "status": "completed", "arguments": c.arguments}
		}
		items = append(items, item)
	}
	if len(calls) == 0 {
		items = append(items, jsonObject{"type": "message", "role": "assistant", "id": newID("msg"), "content": []jsonObject{{"type": "output_text", "text": "done"}}})
	}
	events := []jsonObject{{"type": "response.created", "response": jsonObject{"id": id}}}
	for i, item := range items {
		events = append(events, jsonObject{"type": "response.output_item.done", "output_index": i, "item": item})
	}
	writeEvents(w, true, append(events, jsonObject{"type": "response.completed", "response": jsonObject{"id": id, "usage": jsonObject{
		"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": 2}}})...)
}

// geminiDialect is the Gemini API.
type geminiDialect struct{}

func (geminiDialect) readRequest(path string, body []byte) (r modelRequest, ok bool, err error) {
	if !strings.Contains(path, "enerateContent") {
		return r, false, nil
	}
	var sent struct {
		Tools []struct {
			FunctionDeclarations []json.RawMessage
		}
		Contents []struct {
			Parts []geminiPart
		}
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return r, false, err
	}
	var tools []json.RawMessage
	for _, t := range sent.Tools {
		tools = append(tools, t.FunctionDeclarations...)
	}
	if r.tools, err = toolsByName(tools); err != nil {
		return r, false, err
	}
	for _, content := range sent.Contents {
		for _, part := range content.Parts {
			if f := part.FunctionResponse; f != nil {
				got := toolResult{text: f.Response.Output + f.Response.Error}
				for _, p := range f.Parts {
					got.images = append(got.images, p.InlineData.Data)
				}
				r.results = append(r.results, got)
			} else if last := len(r.results) - 1; part.InlineData != nil && last >= 0 {
				r.results[last].images = append(r.results[last].images, part.InlineData.Data)
			}
		}
	}
	return r, true, nil
}

type geminiPart struct {
	InlineData       *struct{ Data []byte }
	FunctionResponse *struct {
		Response struct{ Output, Error string }
		Parts    []geminiPart
	}
}

func (geminiDialect) writeAnswer(w http.ResponseWriter, r *http.Request, calls []toolCall) {
	var parts []jsonObject
	for _, c := range calls {
		parts = append(parts, jsonObject{"functionCall": jsonObject{"name": c.tool, "args": c.arguments}})
	}
	if len(calls) == 0 {
		parts = []jsonObject{{"text": "done"}}
	}
	answer := jsonObject{
		"candidates":    []jsonObject{{"content": jsonObject{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": jsonObject{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
	}
	if strings.Contains(r.URL.Path, "stream") {
		writeEvents(w, false, answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, encodeJSON(answer))
}

// bridgedDialect is the dialect of an agent whose model must call some tools through another one.
type bridgedDialect struct{ apiDialect }

// bridgeTool is the name of that tool.
const bridgeTool = "tool_call"

func (b bridgedDialect) readRequest(path string, body []byte) (r modelRequest, ok bool, err error) {
	r, ok, err = b.apiDialect.readRequest(path, body)
	if r.tools[bridgeTool] != nil {
		r.tools[qwenCode.toolName("repl")] = nil // it can be called
	}
	return r, ok, err
}

func (b bridgedDialect) writeAnswer(w http.ResponseWriter, r *http.Request, calls []toolCall) {
	for i, c := range calls {
		if c.tool != searchTool {
			calls[i] = toolCall{tool: bridgeTool, arguments: jsonObject{"name": c.tool, "arguments": c.arguments}}
		}
	}
	b.apiDialect.writeAnswer(w, r, calls)
}

// A contentPart is a typed block of content in any of the dialects.
type contentPart struct {
	Type     string
	Text     string
	Content  json.RawMessage
	Source   struct{ Data []byte }
	ImageURL string `json:"image_url"`
}

// contentParts returns the blocks of a content, which may also be a plain string.
func contentParts(content json.RawMessage) []contentPart {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []contentPart{{Type: "text", Text: text}}
	}
	var blocks []contentPart
	_ = json.Unmarshal(content, &blocks) // a message of neither kind has no blocks
	return blocks
}

// searchTool is the service's tool with which a model finds other tools.
const searchTool = "tool_search"

// namespaceEnd separates the name of a tool from the name of its group.
const namespaceEnd = "/"

// toolsByName maps names to tools; a tool in a group has both names.
func toolsByName(tools []json.RawMessage) (map[string]json.RawMessage, error) {
	found := make(map[string]json.RawMessage)
	for _, text := range tools {
		var t struct {
			Name  string
			Type  string
			Tools []json.RawMessage
		}
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, err
		}
		if t.Type != "namespace" {
			if t.Name == "" { // a built-in tool of the service
				t.Name = t.Type
			}
			found[t.Name] = text
			continue
		}
		inside, err := toolsByName(t.Tools)
		if err != nil {
			return nil, err
		}
		for name, text := range inside {
			found[t.Name+namespaceEnd+name] = text
		}
	}
	return found, nil
}
