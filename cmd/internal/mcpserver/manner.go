package mcpserver

import (
	"cmp"
	"strings"
	"time"
)

// A budget bounds the text of one result.
type budget struct {
	chars int
	bytes int // 0 when the client does not count them
}

// defaultBudget bounds a reply for clients without a smaller known limit.
const defaultBudget = 10_000

// A manner is how a client treats calls and their results.
type manner struct {
	client string // the beginning of its name, in lower case

	// cut is the length at which it cuts the text of a result, without our line that says
	// where the rest is. A reply stays a tenth below. 0 means that it cuts nothing.
	cut budget

	// waits is how long it waits for a call; 0 means Options.CallWait.
	waits time.Duration

	// raw means that it shows its model the whole result as JSON, including the parts for
	// programs, and pictures as letters. rawErrors means that it does so for errors only.
	raw, rawErrors bool

	// holds bounds how long an input is held for it; 0 means as long as the call waits. If
	// a client gives up calls silently, holding its inputs longer is useless.
	holds time.Duration
}

// DefaultCallWait bounds a call for clients that are not known to wait longer. Clients built on the
// TypeScript SDK give up a call after 60 s, and cancel it then, which would interrupt the code.
const DefaultCallWait = 50 * time.Second

// manners lists the known clients. The figures were measured on Codex 0.169, Gemini
// CLI 0.61, Claude Code 2.1.329, OpenCode 1.18, Cline 3.0 and Continue 1.5.
var manners = []manner{
	{client: "codex-mcp-client", cut: budget{bytes: 12_000}, waits: 280 * time.Second},                                               // keeps head and tail, which its user can change; gives up after 300 s
	{client: "gemini-cli-mcp-client", cut: budget{chars: 40_000}, waits: 570 * time.Second, rawErrors: true, holds: 5 * time.Second}, // keeps 8,000 and 32,000, and a file; gives up after 600 s
	{client: "claude-code", cut: budget{chars: 50_000}, waits: maxTimeout},                                                           // keeps 2 KB, and a file; more where _meta says so
	{client: "opencode", waits: 200 * time.Second},
	{client: "cline", cut: budget{chars: 7_800}, raw: true}, // cuts the JSON at 8,000
	{client: "continue-", raw: true},
}

// manner returns the manner of the client.
func (r *request) manner() manner {
	if info := r.sdk.ClientInfo(); info != nil {
		name := strings.ToLower(info.Name)
		for _, m := range manners {
			if strings.HasPrefix(name, m.client) {
				return m
			}
		}
	}
	return manner{}
}

// budget returns the bounds on text that the client lets through.
func (r *request) budget() budget {
	b, cut := budget{chars: defaultBudget}, r.manner().cut
	if cut.chars > 0 {
		b.chars = min(b.chars, cut.chars/10*9)
	}
	if cut.bytes > 0 {
		b.bytes = cut.bytes / 10 * 9
		b.chars = min(b.chars, b.bytes)
	}
	return b
}

// patience is how long the client waits for a call.
func (r *request) patience() time.Duration {
	return cmp.Or(r.manner().waits, r.unknownWait, DefaultCallWait)
}

// waitTime returns how long a call waits: as long as it asks for, within bounds, but not
// longer than its client waits.
func (r *request) waitTime(name string, ms *float64) (time.Duration, error) {
	asked, err := waitTime(name, ms)
	return min(asked, r.patience()), err
}
