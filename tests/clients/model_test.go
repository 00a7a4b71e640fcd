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
)

// A call is what the model wants of a tool of ours, or of the agent's own.
type call struct {
	tool      string
	arguments map[string]any
	joined    bool // made in one turn of the model with the call before
}

// run is a call of the tool repl.
func run(input string) call { return call{tool: "repl", arguments: map[string]any{"input": input}} }

// together returns calls that the model makes in one turn.
func together(calls ...call) []call {
	for i := range calls {
		calls[i].joined = i > 0
	}
	return calls
}

// A result is what an agent tells the model of a call.
type result struct {
	text   string
	images [][]byte
}

// A request is what an agent sends to the model.
type request struct {
	tools   map[string]json.RawMessage // by the agent's own names
	results []result                   // of all calls so far, in order
}

// A dialect is how an agent speaks with its model.
type dialect interface {
	// read reads a request. ok is false when it is not for an answer.
	read(path string, body []byte) (r request, ok bool, err error)

	// answer calls tools, by the agent's names, or says done if there are none.
	answer(w http.ResponseWriter, r *http.Request, calls []call)
}

// A model answers each request with the next call that it was told to make, and those
// joined to it.
type model struct {
	t       testing.TB
	dialect dialect
	named   func(tool string) string // the agent's name of a tool
	url     string

	mu       sync.Mutex
	steps    []call // still to make
	wanted   string // the tool of the next call, or of the last one
	asked    int    // requests that offered it
	read     int    // bytes of these
	latest   request
	requests []string // unchanged, for a person who looks why a test failed
}

// newModel serves a model on the loopback until the test ends.
func newModel(t testing.TB, d dialect, named func(string) string, steps ...call) *model {
	m := &model{t: t, dialect: d, named: named, steps: steps, wanted: "repl"}
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

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent has given up
	}
	req, ok, err := m.dialect.read(r.URL.Path, body)
	if err != nil {
		m.t.Errorf("%s: %v in %.2000s", r.URL.Path, err, body)
	}
	var calls []call
	m.mu.Lock()
	if len(m.steps) > 0 {
		m.wanted = m.steps[0].tool
	}
	if _, offered := req.tools[m.named(m.wanted)]; ok && offered {
		m.asked++
		m.read += len(body)
		m.latest = req
		for len(m.steps) > 0 && (len(calls) == 0 || m.steps[0].joined) {
			calls = append(calls, call{tool: m.named(m.steps[0].tool), arguments: m.steps[0].arguments})
			m.steps = m.steps[1:]
		}
		m.note("the last of %d results: %q", len(req.results), texts(req.results[max(0, len(req.results)-1):]))
		m.note("calls: %v", calls)
	}
	m.mu.Unlock()
	if !ok {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
		return
	}
	m.dialect.answer(w, r, calls)
}

func (m *model) note(format string, args ...any) {
	m.requests = append(m.requests, fmt.Sprintf("%.4000s", fmt.Sprintf(format, args...)))
}

// then has the model make one more call.
func (m *model) then(c call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps = append(m.steps, c)
}

// askings counts the requests that offered the tool that was wanted.
func (m *model) askings() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

// seen are the results that the model has been told of.
func (m *model) seen() []result {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest.results
}

// offered is the definition of a tool as the model gets it.
func (m *model) offered(tool string) json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest.tools[m.named(tool)]
}

// result waits for the result of the n-th call, from 0.
func (m *model) result(t testing.TB, n int) result {
	t.Helper()
	if !holds(deadline, func() bool { return len(m.seen()) > n }) {
		t.Fatalf("the model was not told of call %d; it knows %q", n, texts(m.seen()))
	}
	return m.seen()[n]
}

func texts(results []result) []string {
	var all []string
	for _, r := range results {
		all = append(all, r.text)
	}
	return all
}

// events writes an answer as server-sent events.
func events(w http.ResponseWriter, named bool, values ...map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	var b bytes.Buffer
	for _, v := range values {
		if named {
			fmt.Fprintf(&b, "event: %s\n", v["type"])
		}
		fmt.Fprintf(&b, "data: %s\n\n", encoded(v))
	}
	_, _ = w.Write(b.Bytes())
}

func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of values written in this package
	}
	return string(text)
}

// newID is an identifier as the services make them.
func newID(kind string) string { return kind + "_" + rand.Text() }

func decoded(text string) []byte {
	data, _ := base64.StdEncoding.DecodeString(text) // a test that looks at it will notice
	return data
}

type object = map[string]any

// anthropic is the Messages API.
type anthropic struct{}

func (anthropic) read(path string, body []byte) (r request, ok bool, err error) {
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
	if r.tools, err = byName(sent.Tools); err != nil {
		return r, false, err
	}
	for _, message := range sent.Messages {
		for _, block := range parts(message.Content) {
			if block.Type == "tool_result" {
				var got result
				for _, part := range parts(block.Content) {
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

func (anthropic) answer(w http.ResponseWriter, _ *http.Request, calls []call) {
	said := []object{{"type": "message_start", "message": object{
		"id": newID("msg"), "type": "message", "role": "assistant", "model": "stub", "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": 1, "output_tokens": 1}}}}
	say := func(i int, block, delta object) {
		said = append(said,
			object{"type": "content_block_start", "index": i, "content_block": block},
			object{"type": "content_block_delta", "index": i, "delta": delta},
			object{"type": "content_block_stop", "index": i})
	}
	stop := "tool_use"
	for i, c := range calls {
		say(i, object{"type": "tool_use", "id": newID("toolu"), "name": c.tool, "input": object{}},
			object{"type": "input_json_delta", "partial_json": encoded(c.arguments)})
	}
	if len(calls) == 0 {
		stop = "end_turn"
		say(0, object{"type": "text", "text": ""}, object{"type": "text_delta", "text": "done"})
	}
	events(w, true, append(said,
		object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 1}},
		object{"type": "message_stop"})...)
}

// openai is the Responses API.
type openai struct{}

func (openai) read(path string, body []byte) (r request, ok bool, err error) {
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
	if r.tools, err = byName(sent.Tools); err != nil {
		return r, false, err
	}
	for _, item := range sent.Input {
		switch item.Type {
		case "tool_search_output":
			found, err := byName(item.Tools)
			if err != nil {
				return r, false, err
			}
			maps.Copy(r.tools, found)
			r.results = append(r.results, result{text: strings.Join(slices.Sorted(maps.Keys(found)), " ")})
		case "function_call_output":
			var got result
			for _, part := range parts(item.Output) {
				if image, ok := strings.CutPrefix(part.ImageURL, "data:image/png;base64,"); ok {
					got.images = append(got.images, decoded(image))
				}
				got.text += part.Text
			}
			r.results = append(r.results, got)
		}
	}
	return r, true, nil
}

func (openai) answer(w http.ResponseWriter, _ *http.Request, calls []call) {
	id := newID("resp")
	items := []object{}
	for _, c := range calls {
		item := object{"type": "function_call", "id": newID("fc"), "call_id": newID("call"), "name": c.tool, "arguments": encoded(c.arguments)}
		if space, name, ok := strings.Cut(c.tool, namespaceEnd); ok {
			item["namespace"], item["name"] = space, name
		}
		if c.tool == searchTool {
			item = object{"type": "tool_search_call", "id": newID("ts"), "call_id": newID("call"), "execution": "client", "status": "completed", "arguments": c.arguments}
		}
		items = append(items, item)
	}
	if len(calls) == 0 {
		items = append(items, object{"type": "message", "role": "assistant", "id": newID("msg"), "content": []object{{"type": "output_text", "text": "done"}}})
	}
	said := []object{{"type": "response.created", "response": object{"id": id}}}
	for i, item := range items {
		said = append(said, object{"type": "response.output_item.done", "output_index": i, "item": item})
	}
	events(w, true, append(said, object{"type": "response.completed", "response": object{"id": id, "usage": object{
		"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": 2}}})...)
}

// gemini is the Gemini API.
type gemini struct{}

func (gemini) read(path string, body []byte) (r request, ok bool, err error) {
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
	if r.tools, err = byName(tools); err != nil {
		return r, false, err
	}
	for _, content := range sent.Contents {
		for _, part := range content.Parts {
			if f := part.FunctionResponse; f != nil {
				got := result{text: f.Response.Output + f.Response.Error}
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

func (gemini) answer(w http.ResponseWriter, r *http.Request, calls []call) {
	var parts []object
	for _, c := range calls {
		parts = append(parts, object{"functionCall": object{"name": c.tool, "args": c.arguments}})
	}
	if len(calls) == 0 {
		parts = []object{{"text": "done"}}
	}
	answer := object{
		"candidates":    []object{{"content": object{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": object{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
	}
	if strings.Contains(r.URL.Path, "stream") {
		events(w, false, answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, encoded(answer))
}

// bridged is the dialect of an agent whose model has to call some tools through
// another one.
type bridged struct{ dialect }

// bridge is that tool.
const bridge = "tool_call"

func (b bridged) read(path string, body []byte) (r request, ok bool, err error) {
	r, ok, err = b.dialect.read(path, body)
	if r.tools[bridge] != nil {
		r.tools[qwenCode.tool("repl")] = nil // it can be called
	}
	return r, ok, err
}

func (b bridged) answer(w http.ResponseWriter, r *http.Request, calls []call) {
	for i, c := range calls {
		if c.tool != searchTool {
			calls[i] = call{tool: bridge, arguments: object{"name": c.tool, "arguments": c.arguments}}
		}
	}
	b.dialect.answer(w, r, calls)
}

// A part is a block of content in any of the dialects that has a type.
type part struct {
	Type     string
	Text     string
	Content  json.RawMessage
	Source   struct{ Data []byte }
	ImageURL string `json:"image_url"`
}

// parts are the blocks of a content, which may also be a mere string.
func parts(content json.RawMessage) []part {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []part{{Type: "text", Text: text}}
	}
	var blocks []part
	_ = json.Unmarshal(content, &blocks) // a message of neither kind has no blocks
	return blocks
}

// searchTool is the service's tool with which a model finds others.
const searchTool = "tool_search"

// namespaceEnd separates a tool's name from that of its group.
const namespaceEnd = "/"

// byName finds tools by name, those in a group by both names.
func byName(tools []json.RawMessage) (map[string]json.RawMessage, error) {
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
			if t.Name == "" { // a tool of the service's own
				t.Name = t.Type
			}
			found[t.Name] = text
			continue
		}
		inside, err := byName(t.Tools)
		if err != nil {
			return nil, err
		}
		for name, text := range inside {
			found[t.Name+namespaceEnd+name] = text
		}
	}
	return found, nil
}
