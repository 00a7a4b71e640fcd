package mcpclient

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/supervisor"
)

// rudeServerVariable makes this program a misbehaving server; its value selects the misbehavior.
const rudeServerVariable = "TURNSTONE_RUDE"

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{
		Monitor: supervisor.MonitorMain,
		Programs: []testmain.Program{{Variable: rudeServerVariable, Main: func(behavior string) (status int) {
			runRudeServer(behavior)
			return 0
		}}},
	})
}

type request struct {
	ID     json.RawMessage
	Method string
	Error  struct{ Message string } // of an answer
	Result struct{ Action string }  // of an answer
	Params struct {
		Name      string
		Arguments json.RawMessage
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
}

// A rudeServer writes MCP as raw lines.
type rudeServer struct {
	out          *bufio.Writer
	linePrefix   string // precedes the first line
	textIDs      bool   // the ids of answers are strings
	changed      bool
	askingCallID json.RawMessage // the call that waits for user input
}

func (r *rudeServer) writeLine(format string, args ...any) {
	fmt.Fprintf(r.out, r.linePrefix+format+"\n", args...)
	r.linePrefix = ""
	r.out.Flush()
}

func (r *rudeServer) writeResult(id json.RawMessage, result string) {
	if r.textIDs {
		id = json.RawMessage(`"` + string(id) + `"`)
	}
	r.writeLine(`{"jsonrpc":"2.0","result":%s,"id":%s}`, result, id)
}

func runRudeServer(behavior string) {
	r := &rudeServer{out: bufio.NewWriter(os.Stdout)}
	switch behavior {
	case "dies":
		fmt.Fprintln(os.Stderr, "\x1b[31mno licence found\x1b[0m")
		os.Exit(3)
	case "silent":
		testexec.BlockForever()
	case "hostile", "storm", "hasty", "ancient", "endless", "toolless", "twisted", "closing", "unread", "texts":
		runOddServer(behavior)
		return
	case "polite", "older":
		runPoliteServer(behavior == "older")
		return
	case "junk":
		r.writeLine("Starting server...\n[1, 2]\n")
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	newer := false
	for in.Scan() {
		var q request
		if json.Unmarshal(in.Bytes(), &q) != nil {
			continue
		}
		switch q.Method {
		case "":
			if r.askingCallID != nil {
				r.writeResult(r.askingCallID, textContent("refused: "+q.Error.Message+q.Result.Action))
				r.askingCallID = nil
			}
		case "server/discover":
			if behavior == "late" { // chooses the newer handshake, after a delay
				<-time.After(500 * time.Millisecond)
				r.writeResult(q.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
				newer = true
			} else if behavior != "deaf" {
				r.writeLine(`{"jsonrpc":"2.0","error":{"code":-32601,"message":"unknown"},"id":%s}`, q.ID)
			}
		case "initialize":
			if newer {
				r.writeLine(`{"jsonrpc":"2.0","error":{"code":-32600,"message":"not accepted"},"id":%s}`, q.ID)
				continue
			}
			r.writeResult(q.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"rude","version":"1"}}`)
		case "tools/list":
			r.writeResult(q.ID, r.toolList())
		case "tools/call":
			r.handleCall(q)
		}
	}
}

func (r *rudeServer) toolList() string {
	var list []string
	add := func(name, more string) {
		list = append(list, fmt.Sprintf(`{"name":%q,"description":"does %s","inputSchema":{"type":"object","properties":{"zeta":{"type":"string"},"alpha":{"type":"integer"}%s}`, name, name, more))
	}
	for _, name := range []string{"echo", "big", "null", "huge", "invalid", "unknown-id", "die", "hang", "flood", "child", "fail", "progress", "sample", "ask", "picture", "import", "from-a", "from_a"} {
		add(name, "}")
	}
	add("wipe", `},"annotations":{"destructiveHint":true}`)
	if r.changed {
		add("added", "}")
	}
	text := strings.Join(list, ",")
	text = strings.ReplaceAll(text, `"integer"}}}`, `"integer"}},"required":["zeta"]}}`)
	text = strings.ReplaceAll(text, `"integer"}},"annotations"`, `"integer"}}},"annotations"`)
	return `{"tools":[` + text + `,` + `{"name":"echo","inputSchema":{"type":"object"}}]}`
}

// textContent returns a tool result with one text.
func textContent(text string) string {
	b, _ := json.Marshal(text)
	return `{"content":[{"type":"text","text":` + string(b) + `}]}`
}

func (r *rudeServer) handleCall(q request) {
	switch q.Params.Name {
	case "echo":
		r.writeResult(q.ID, textContent(string(q.Params.Arguments)))
	case "big":
		r.writeResult(q.ID, `{"content":[],"structuredContent":{"n":9007199254740993,"x":1.5,"none":null}}`)
	case "huge":
		r.writeResult(q.ID, textContent(strings.Repeat("x", maxMessageBytes+1)))
	case "invalid":
		r.writeLine(`{"jsonrpc":"2.0","result":{"content":[}},"id":%s}`, q.ID)
	case "unknown-id":
		r.writeResult(json.RawMessage("987654"), textContent("unsolicited"))
		r.writeResult(q.ID, textContent("ok"))
		r.writeResult(q.ID, textContent("twice"))
	case "die":
		fmt.Fprintln(os.Stderr, "out of cheese")
		os.Exit(7)
	case "hang":
		return
	case "flood":
		for i := range 5000 {
			r.writeLine(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d"}}`, i)
		}
		r.writeResult(q.ID, textContent("after the flood"))
	case "child":
		c := exec.Command("sleep", "300")
		if err := c.Start(); err != nil {
			r.writeResult(q.ID, textContent(err.Error()))
			return
		}
		r.writeResult(q.ID, textContent(fmt.Sprint(c.Process.Pid)))
	case "fail":
		r.writeResult(q.ID, `{"isError":true,"content":[{"type":"text","text":"no such bird"}]}`)
	case "progress":
		r.writeLine(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":3,"total":7,"message":"third egg"}}`, q.Params.Meta.ProgressToken)
		r.writeResult(q.ID, textContent("laid"))
	case "sample":
		r.writeLine(`{"jsonrpc":"2.0","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1},"id":"s1"}`)
		r.writeResult(q.ID, textContent("asked"))
	case "ask":
		r.askingCallID = q.ID
		r.writeLine(`{"jsonrpc":"2.0","method":"elicitation/create","params":{"message":"your password?","requestedSchema":{"type":"object","properties":{}}},"id":"e1"}`)
	case "picture":
		r.writeResult(q.ID, `{"content":[{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}]}`)
	case "wipe":
		r.changed = true
		r.writeLine(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		r.writeResult(q.ID, textContent("wiped"))
	default:
		r.writeResult(q.ID, textContent("ran "+q.Params.Name))
	}
}
