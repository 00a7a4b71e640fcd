package mcpclient

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// hostileToolList is a list of tools with malformed or malicious names and schemas.
func hostileToolList() string {
	big := strings.Repeat(`"p%d":{"type":"string","description":"`+strings.Repeat("x", 1000)+`"},`, 1)
	var huge strings.Builder
	for i := range 9000 { // 9 MiB
		fmt.Fprintf(&huge, big, i)
	}
	deep := strings.Repeat(`{"type":"array","items":`, 300) + `{}` + strings.Repeat(`}`, 300)
	return `{"tools":[` + strings.Join([]string{
		`{"name":"fine","inputSchema":{"type":"object"}}`,
		`{"name":"two\nlines","inputSchema":{"type":"object"}}`,
		`{"name":"\u001b[31mred","inputSchema":{"type":"object"}}`,
		`{"name":"` + strings.Repeat("long", 100) + `","inputSchema":{"type":"object"}}`,
		`{"name":"","inputSchema":{"type":"object"}}`,
		`{"name":"__class__","inputSchema":{"type":"object"}}`,
		`{"name":"__getattr__","inputSchema":{"type":"object"}}`,
		`{"name":"ﬁle","inputSchema":{"type":"object"}}`,
		`{"name":"file","inputSchema":{"type":"object"}}`,
		`{"name":"e\u0301t\u00e9","inputSchema":{"type":"object"}}`,
		`{"name":"\u00e9te\u0301","inputSchema":{"type":"object"}}`,
		`{"name":"twice","inputSchema":{"type":"object"}}`,
		`{"name":"twice","inputSchema":{"type":"object"}}`,
		`{"name":"recursive","inputSchema":{"type":"object","properties":{"node":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}}`,
		`{"name":"itself","inputSchema":{"$ref":"#"}}`,
		`{"name":"huge","inputSchema":{"type":"object","properties":{` + huge.String() + `"last":{}}}}`,
		`{"name":"deep","inputSchema":{"type":"object","properties":{"a":` + deep + `}}}`,
		`{"name":"schemaless"}`,
		`{"name":"null_schema","inputSchema":null}`,
		`{"name":"array_schema","inputSchema":{"type":"array"}}`,
		`{"name":"text_schema","inputSchema":"object"}`,
		`{"name":"true_schema","inputSchema":true}`,
		`{"name":"odd_words","inputSchema":{"type":["object","null"],"properties":{"a":{"type":7},"b":{"enum":3},"c":{"type":"string","enum":[1,null]},"d":true,"e":null},"required":"a"}}`,
		`{"name":"keywords","inputSchema":{"type":"object","properties":{"from":{"type":"string"},"class":{"type":"integer"},"self":{},"a-b":{},"a_b":{},"é":{},"1st":{},"":{}},"required":["from"]}}`,
		`{"name":"wrong_output","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`,
		`{"name":"odd_output","inputSchema":{"type":"object"},"outputSchema":"text"}`,
		`{"name":"described","description":"\u001b[2J\"\"\"\n'''; import os","inputSchema":{"type":"object","properties":{"a":{"description":"\u001b[2J"}}},"annotations":null}`,
	}, ",") + `]}`
}

// runOddServer runs a server with the given misbehavior.
func runOddServer(behavior string) {
	r := &rudeServer{out: bufio.NewWriter(os.Stdout)}
	if behavior == "texts" {
		r.linePrefix, r.textIDs = "\ufeff", true
	}
	if behavior == "hasty" { // answers before the requests come
		for i := range 20 {
			r.writeResult(json.RawMessage(fmt.Sprint(i)), textContent("too early"))
		}
	}
	in := bufio.NewReader(os.Stdin)
	cursor := 0
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var q request
		if json.Unmarshal(line, &q) != nil {
			continue
		}
		switch q.Method {
		case "server/discover":
			r.writeLine(`{"jsonrpc":"2.0","error":{"code":-32601,"message":"unknown"},"id":%s}`, q.ID)
		case "initialize":
			version := "2025-11-25"
			if behavior == "ancient" {
				version = "1999-01-01"
			}
			r.writeResult(q.ID, `{"protocolVersion":"`+version+`","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"odd","version":"1"}}`)
		case "tools/list":
			if behavior == "closing" {
				os.Stdin.Close() // closed before the answer, because a call may be written right after it
			}
			switch behavior {
			case "hostile":
				r.writeResult(q.ID, hostileToolList())
			case "endless":
				cursor++
				r.writeResult(q.ID, fmt.Sprintf(`{"tools":[{"name":"same","inputSchema":{"type":"object"}},{"name":"own%d","inputSchema":{"type":"object"}}],"nextCursor":"c"}`, cursor))
			case "toolless":
				r.writeResult(q.ID, `{"tools":null}`)
			default:
				r.writeResult(q.ID, `{"tools":[{"name":"do","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}`)
			}
		case "tools/call":
			r.handleOddCall(behavior, q)
		}
		switch {
		case behavior == "unread" && q.Method == "tools/list":
			testexec.BlockForever() // and stop reading
		case behavior == "closing" && q.Method == "tools/list":
			testexec.BlockForever()
		}
	}
}

func (r *rudeServer) handleOddCall(behavior string, q request) {
	switch behavior + "/" + q.Params.Name {
	case "storm/do":
		for i := range 5000 {
			r.writeLine(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			r.writeLine(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":"much","message":"x"}}`, q.Params.Meta.ProgressToken, i)
			r.writeLine(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, q.Params.Meta.ProgressToken, i)
			r.writeLine(`{"jsonrpc":"2.0","method":"notifications/unheard_of","params":[1,2]}`)
		}
		r.writeResult(q.ID, textContent("after the storm"))
	case "twisted/do":
		var args struct{ Text string }
		_ = json.Unmarshal(q.Params.Arguments, &args)
		r.writeResult(q.ID, args.Text)
	case "hostile/wrong_output":
		r.writeResult(q.ID, `{"content":[],"structuredContent":{"n":"many"}}`)
	default:
		r.writeResult(q.ID, textContent("ran "+q.Params.Name))
	}
}
