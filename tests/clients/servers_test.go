//go:build linux

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
)

// referenceServers writes the configuration of the reference servers, limited to the project, and
// returns the arguments for repl mcp.
func referenceServers(t testing.TB, p testHome) []string {
	t.Helper()
	if out, err := exec.Command("git", "init", "--quiet", p.project).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	mark := func(more jsonObject) jsonObject { // to find their remaining processes
		name, value, _ := strings.Cut(p.sharedEnv[0], "=")
		more[name] = value
		return more
	}
	inNode := func(name string, env jsonObject, args ...string) jsonObject {
		argv := nodeCommand(t, installedFile(t, "@modelcontextprotocol/server-"+name+"/dist/index.js"), args...)
		return jsonObject{"command": argv[0], "args": argv[1:], "env": mark(env)}
	}
	inPython := func(name string, args ...string) jsonObject {
		return jsonObject{"command": filepath.Join(os.Getenv(clientsEnv), "python", "bin", "mcp-server-"+name), "args": args, "env": mark(jsonObject{})}
	}
	file := p.writeFile(t, "tools.json", encodeJSON(jsonObject{"mcpServers": jsonObject{
		"everything": inNode("everything", jsonObject{}),
		"filesystem": inNode("filesystem", jsonObject{}, p.project),
		"memory":     inNode("memory", jsonObject{"MEMORY_FILE_PATH": filepath.Join(p.home, "memory.json")}),
		"git":        inPython("git", "--repository", p.project),
		"time":       inPython("time"),
	}}))
	return []string{"--mcp-servers", file, "--allow-tool", "*", "--allow-tool", "filesystem.write_file"}
}

// A serverStep is code with the expected parts of its reply. PROJECT stands for the project's
// directory.
type serverStep struct {
	code string
	want []string
}

var stepsInPython = []serverStep{
	{"import turnstone; from turnstone.tools import everything, filesystem, memory, git, time as clock; 'there'", []string{"'there'"}},
	{"[everything.get_sum(a=i, b=1) for i in range(100)][-1]", []string{"'The sum of 99 and 1 is 100.'", "[called everything.get-sum × 100"}},
	{"sorted(everything.get_structured_content(location='Chicago'))", []string{"['conditions', 'humidity', 'temperature']"}},
	{"everything.get_tiny_image()[1].kind", []string{"'image/png'"}},
	{"filesystem.write_file(path='PROJECT/note.txt', content='from code'); print(git.git_status(repo_path='PROJECT'))", []string{"note.txt"}},
	{"filesystem.read_text_file(path='/etc/passwd')", []string{"turnstone.ToolError: Access denied"}},
	{"_ = memory.create_entities(entities=[{'name': 'Ada', 'entityType': 'person', 'observations': ['writes programs']}])\nmemory.search_nodes(query='Ada')['entities'][0]['observations']", []string{"['writes programs']"}},
	{"memory.delete_entities(entityNames=['Ada'])", []string{"PermissionError: memory.delete_entities is not allowed"}},
	{"clock.convert_time(source_timezone='UTC', time='12:00', target_timezone='Asia/Tokyo')['time_difference']", []string{"'+9.0h'"}},
	{"turnstone.search('add numbers')", []string{"everything.get_sum(a: number, b: number)"}},
	{"everything.get_sum(a='x', c=1)", []string{"TypeError: everything.get-sum: wrong arguments: missing b; a is a string, not number; unknown c"}},
}

var stepsInR = []serverStep{
	{"tail(vapply(1:100, \\(i) turnstone$tools$everything$get_sum(a = i, b = 1), \"\"), 1)", []string{"The sum of 100 and 1 is 101.", "[called everything.get-sum × 100"}},
	{"sort(names(turnstone$tools$everything$get_structured_content(location = \"Chicago\")))", []string{`"conditions"  "humidity"    "temperature"`}},
	{"x <- turnstone$tools$filesystem$write_file(path = \"PROJECT/note.txt\", content = \"from code\"); cat(turnstone$tools$git$git_status(repo_path = \"PROJECT\"))", []string{"note.txt"}},
	{"tryCatch(turnstone$tools$filesystem$read_text_file(path = \"/etc/passwd\"), ToolError = \\(e) cat(\"caught\", conditionMessage(e)))", []string{"caught Access denied"}},
	{"turnstone$tools$time$convert_time(source_timezone = \"UTC\", time = \"12:00\", target_timezone = \"Asia/Tokyo\")$time_difference", []string{`"+9.0h"`}},
	{"turnstone$tools$memory$delete_entities(entityNames = list(\"Ada\"))", []string{"memory.delete_entities is not allowed"}},
}

// callIn returns the call of a step in a project. Servers may take longer to start than a call's
// default timeout.
func (s serverStep) callIn(p testHome) toolCall {
	return toolCall{tool: "repl", arguments: jsonObject{"input": strings.ReplaceAll(s.code, "PROJECT", p.project), "timeout_ms": testTimeout.Milliseconds()}}
}

// checkReply checks that the reply has the expected parts.
func (s serverStep) checkReply(t testing.TB, reply string) {
	t.Helper()
	for _, want := range s.want {
		if !strings.Contains(reply, want) {
			t.Errorf("%s\nlacks %q in the reply: %.2000s", s.code, want, reply)
		}
	}
}

func TestServers(t *testing.T) {
	// Code calls the tools of the reference servers, and none of the servers is left running.
	t.Run("are functions in Python and R", func(t *testing.T) {
		for name, test := range map[string]struct {
			command []string
			steps   []serverStep
		}{
			"python": {replCommand(), stepsInPython},
			"R":      {[]string{replbin.Path(), "mcp", "--lang", "r"}, stepsInR},
		} {
			t.Run(name, func(t *testing.T) {
				p := newTestHome(t)
				client := mcp.NewClient(&mcp.Implementation{Name: "clients", Version: "1"}, nil)
				c, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: p.newCommand(append(test.command, referenceServers(t, p)...))}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				for _, s := range test.steps {
					order := s.callIn(p)
					result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: order.tool, Arguments: order.arguments})
					if err != nil {
						t.Fatal(err)
					}
					var reply strings.Builder
					for _, part := range result.Content {
						if text, ok := part.(*mcp.TextContent); ok {
							reply.WriteString(text.Text)
						}
					}
					s.checkReply(t, reply.String())
				}
			})
		}
	})

	// An agent's model pays only for the printed text, and sees one line about the calls.
	t.Run("can be called through agents", func(t *testing.T) {
		steps := []serverStep{
			{"import turnstone\nturnstone.search('sum of numbers', limit=1)", []string{"everything.get_sum(a: number, b: number)"}},
			{"from turnstone.tools import everything, memory\nsums = [everything.get_sum(a=i, b=1) for i in range(100)]\nlen(sums), sums[-1]", []string{"(100, 'The sum of 99 and 1 is 100.')", "[called everything.get-sum × 100"}},
			{"memory.delete_entities(entityNames=['Ada'])", []string{"PermissionError: memory.delete_entities is not allowed"}},
		}
		for _, a := range []agentProgram{codexCLI, claudeCode} {
			t.Run(a.name, func(t *testing.T) {
				p := newTestHome(t)
				var calls []toolCall
				for _, s := range steps {
					calls = append(calls, s.callIn(p))
				}
				m := a.runAgentIn(t, p, agentOptions{timeoutSeconds: 100, server: append(referenceServers(t, p), "--ask-permission", "no")}, calls...)
				for i, s := range steps {
					s.checkReply(t, m.seenResults()[i].text)
				}
				if offered := string(m.toolDefinition("repl")); strings.Contains(offered, "get-sum") || !strings.Contains(offered, "everything") {
					t.Errorf("the model got the definition %s", offered)
				}
			})
		}
	})
}
