package mcpserver

import (
	"cmp"
	"strings"
	"time"
)

// A textBudget bounds the text of one result.
type textBudget struct {
	chars int
	bytes int // 0 when the client does not count them
}

// defaultReplyChars bounds a reply for clients without a smaller known limit.
const defaultReplyChars = 10_000

// A clientProfile describes how a client treats calls and their results.
type clientProfile struct {
	namePrefix string // of its name, in lower case

	// cutLimit is the length at which the client truncates the text of a result, without our hint
	// where the rest is. A reply stays a tenth below. 0 means that it truncates nothing.
	cutLimit textBudget

	// callTimeout is how long the client waits for a call; 0 means Options.CallWait.
	callTimeout time.Duration

	// showsRawResult means that the client shows its model the whole result as JSON, including
	// the parts for programs, and images as base64 text. showsRawErrors means that it does so for
	// errors only.
	showsRawResult, showsRawErrors bool

	// queueTimeout bounds how long an input of the client is queued; 0 means as long as the call
	// waits. If a client gives up calls silently, queuing its inputs longer is useless.
	queueTimeout time.Duration
}

// DefaultCallWait bounds a call for clients that are not known to wait longer. Clients built on
// the TypeScript SDK give up a call after 60 s and cancel it, which would interrupt the code.
const DefaultCallWait = 50 * time.Second

// clientProfiles lists the known clients. The figures were measured on Codex 0.169, Gemini CLI
// 0.61, Claude Code 2.1.329, OpenCode 1.18, Cline 3.0 and Continue 1.5.
var clientProfiles = []clientProfile{
	{namePrefix: "codex-mcp-client", cutLimit: textBudget{bytes: 12_000}, callTimeout: 280 * time.Second},                                                           // shows head and tail, which its user can change; gives up after 300 s
	{namePrefix: "gemini-cli-mcp-client", cutLimit: textBudget{chars: 40_000}, callTimeout: 570 * time.Second, showsRawErrors: true, queueTimeout: 5 * time.Second}, // shows the first 8,000 and last 32,000, and a file; gives up after 600 s
	{namePrefix: "claude-code", cutLimit: textBudget{chars: 50_000}, callTimeout: maxTimeout},                                                                       // shows 2 KB, and a file; more if _meta says so
	{namePrefix: "opencode", callTimeout: 200 * time.Second},
	{namePrefix: "cline", cutLimit: textBudget{chars: 7_800}, showsRawResult: true}, // truncates the JSON at 8,000
	{namePrefix: "continue-", showsRawResult: true},
}

// clientProfile returns the profile of the client, or a zero one.
func (r *toolRequest) clientProfile() clientProfile {
	if info := r.sdk.ClientInfo(); info != nil {
		name := strings.ToLower(info.Name)
		for _, m := range clientProfiles {
			if strings.HasPrefix(name, m.namePrefix) {
				return m
			}
		}
	}
	return clientProfile{}
}

// replyBudget returns the bounds of the text that reaches the client's model.
func (r *toolRequest) replyBudget() textBudget {
	b, cut := textBudget{chars: defaultReplyChars}, r.clientProfile().cutLimit
	if cut.chars > 0 {
		b.chars = min(b.chars, cut.chars/10*9)
	}
	if cut.bytes > 0 {
		b.bytes = cut.bytes / 10 * 9
		b.chars = min(b.chars, b.bytes)
	}
	return b
}

// maxCallTime returns how long the client waits for a call.
func (r *toolRequest) maxCallTime() time.Duration {
	return cmp.Or(r.clientProfile().callTimeout, r.defaultCallWait, DefaultCallWait)
}

// boundedTimeout returns how long a call waits: as long as it asks for, within bounds, but never
// longer than its client waits.
func (r *toolRequest) boundedTimeout(name string, ms *float64) (time.Duration, error) {
	asked, err := parseTimeout(name, ms)
	return min(asked, r.maxCallTime()), err
}
