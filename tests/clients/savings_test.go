//go:build linux

package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// issuesArgument makes this program a server of issues; the next argument is its number of tools.
const issuesArgument = "issues-server"

type issue struct {
	Number   int    `json:"number"`
	Title    string `json:"title"`
	State    string `json:"state"`
	Label    string `json:"label"`
	Author   string `json:"author"`
	Comments int    `json:"comments"`
	Updated  string `json:"updated"`
}

func newIssue(number int) issue {
	return issue{
		Number: number, Title: fmt.Sprintf("Reading fails in case %d when the file is empty", number), State: []string{"open", "closed", "open"}[number%3],
		Label: []string{"bug", "docs", "question", "idea"}[number%4], Author: fmt.Sprintf("user%d", number%17), Comments: number % 9, Updated: fmt.Sprintf("2026-%02d-%02d", number%12+1, number%28+1),
	}
}

type issuePage struct {
	Issues []issue `json:"issues"`
}

// serveIssues serves two tools that answer, and others that only cost a model their definitions.
func serveIssues(args []string) (status int) {
	const pageSize = 100
	s := mcp.NewServer(&mcp.Implementation{Name: "issues", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "list_issues", Description: "Lists the issues of the repository, 100 on a page, the oldest first."},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Page int `json:"page" jsonschema:"which page, from 1"`
		}) (*mcp.CallToolResult, issuePage, error) {
			var page issuePage
			for i := range pageSize {
				page.Issues = append(page.Issues, newIssue((in.Page-1)*pageSize+i+1))
			}
			return nil, page, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "get_issue", Description: "Returns one issue of the repository."},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Number int `json:"number" jsonschema:"of the issue"`
		}) (*mcp.CallToolResult, issue, error) {
			return nil, newIssue(in.Number), nil
		})
	count, err := strconv.Atoi(args[0])
	for i := 2; i < count; i++ {
		s.AddTool(&mcp.Tool{
			Name:        fmt.Sprintf("change_setting_%d", i),
			Description: fmt.Sprintf("Changes setting %d of the repository. Needs the right to administer it. The change is seen by everybody who uses the repository from then on.", i),
			InputSchema: json.RawMessage(`{"type":"object","properties":{"repository":{"type":"string","description":"its owner and name"},"value":{"type":"string","description":"the new value"},"reason":{"type":"string","description":"what the log says about it"}},"required":["repository","value"]}`),
		}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	}
	if err == nil {
		err = s.Run(context.Background(), &mcp.StdioTransport{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 0
}

// savingsTests are tasks with the server's tools, by calls of the model and by code.
var savingsTests = []struct {
	name   string
	agent  agentProgram
	tools  int
	direct []toolCall
	code   []string
	wants  string // printed by the code
	wins   bool   // the code uses far fewer tokens
}{
	{"5 pages of 100, 50 tools", codexCLI, 50, issuePages(), countByLabel, countedByLabel, true},
	{"5 pages of 100, 50 tools", claudeCode, 50, append([]toolCall{{tool: claudeSearch, arguments: jsonObject{"query": "select:mcp__repl__list_issues", "max_results": 3}}}, issuePages()...), countByLabel, countedByLabel, true},
	{"one issue, 50 tools", codexCLI, 50, oneIssue(), showOne, "'number': 7", false},
	{"one issue, 3 tools", codexCLI, 3, oneIssue(), showOne, "'number': 7", false},
}

func issuePages() (calls []toolCall) {
	for page := 1; page <= 5; page++ {
		calls = append(calls, toolCall{tool: "list_issues", arguments: jsonObject{"page": page}})
	}
	return joinCalls(calls...)
}

func oneIssue() []toolCall {
	return []toolCall{{tool: "get_issue", arguments: jsonObject{"number": 7}}}
}

var countByLabel = []string{
	"import turnstone\nturnstone.search('list issues', limit=3)",
	"from turnstone.tools import issues\nfrom collections import Counter\nfound = [i for page in range(1, 6) for i in issues.list_issues(page=page)['issues']]\nCounter(i['label'] for i in found if i['state'] == 'open')",
}

const countedByLabel = "Counter({'question': 84, 'idea': 83, 'docs': 83, 'bug': 83})"

var showOne = []string{"import turnstone\nturnstone.search('get issue', limit=3)", "from turnstone.tools import issues\nissues.get_issue(number=7)"}

// The test counts everything that a model reads for a task, once with the server in the agent's
// configuration and once behind repl mcp.
func TestTokens_ToolsByCode(t *testing.T) {
	self := testexec.OwnPath()
	rows := make([]string, len(savingsTests))
	t.Run("tasks", func(t *testing.T) {
		for i, s := range savingsTests {
			t.Run(strings.ReplaceAll(s.agent.name+" "+s.name, ",", ""), func(t *testing.T) {
				t.Parallel() // starting takes most of the time
				server := []string{self, issuesArgument, strconv.Itoa(s.tools)}
				p := newTestHome(t)
				file := p.writeFile(t, "tools.json", encodeJSON(jsonObject{"mcpServers": jsonObject{"issues": jsonObject{"command": server[0], "args": server[1:]}}}))
				var calls []toolCall
				for _, code := range s.code {
					calls = append(calls, serverStep{code: code}.callIn(p))
				}
				ours := s.agent.runAgentIn(t, p, agentOptions{timeoutSeconds: 100, server: []string{"--mcp-servers", file, "--allow-tool", "issues.*"}}, calls...)
				direct := s.agent.runAgent(t, agentOptions{otherServer: server}, s.direct...)
				if last := ours.seenResults()[len(calls)-1].text; !strings.Contains(last, s.wants) {
					t.Errorf("the code printed %q, want %q", last, s.wants)
				}
				if s.wins && ours.readBytes >= direct.readBytes {
					t.Errorf("by code the model reads %d bytes, by direct calls %d", ours.readBytes, direct.readBytes)
				}
				rows[i] = fmt.Sprintf("%-9s %-26s %8d %8d %8d %8d %8d %8d", s.agent.name, s.name, direct.askCount, ours.askCount, resultTokens(direct), resultTokens(ours), direct.readBytes/4, ours.readBytes/4)
			})
		}
	})
	t.Logf("requests, approximate tokens of results, and of all that the model reads, direct and by code\n%s", strings.Join(rows, "\n"))
}

// resultTokens returns the tokens of the results of all calls.
func resultTokens(m *fakeModel) (all int) {
	for _, r := range m.seenResults() {
		all += countTokens(r.text)
	}
	return all
}
