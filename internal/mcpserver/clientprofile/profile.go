package clientprofile

import (
	"cmp"
	"strings"
	"time"
)

// A TextBudget bounds the text of one result.
type TextBudget struct {
	Chars int
	Bytes int // 0 when the client does not count them
}

// defaultReplyChars bounds a reply for clients without a smaller known limit.
const defaultReplyChars = 10_000

// A Profile describes how a client treats calls and their results.
type Profile struct {
	namePrefix string // of its name, in lower case

	// cutLimit is the length at which the client truncates the text of a result, without a hint
	// where the rest is. A reply stays a tenth below. 0 means that it truncates nothing.
	cutLimit TextBudget

	// callTimeout is how long the client waits for a call; 0 means that it is not known.
	callTimeout time.Duration

	// ShowsRawResult means that the client shows its model the whole result as JSON, including
	// the parts for programs, and images as base64 text. ShowsRawErrors means that it does so for
	// errors only.
	ShowsRawResult, ShowsRawErrors bool

	// QueueTimeout bounds how long an input of the client is queued; 0 means as long as the call
	// waits. If a client gives up calls silently, queuing its inputs longer is useless.
	QueueTimeout time.Duration

	parsesText bool // see ProtectText
}

// LongestCall bounds how long any call may wait.
const LongestCall = 10 * time.Minute

// DefaultCallWait bounds a call for clients that are not known to wait longer. Clients built on
// the TypeScript SDK give up a call after 60 s and cancel it, which would interrupt the code.
const DefaultCallWait = 50 * time.Second

// profiles lists the known clients. The figures were measured on Codex 0.169, Gemini CLI
// 0.61, Claude Code 2.1.329, OpenCode 1.18, Cline 3.0 and Continue 1.5.
var profiles = []Profile{
	{namePrefix: "codex-mcp-client", cutLimit: TextBudget{Bytes: 12_000}, callTimeout: 280 * time.Second},                                                                             // shows head and tail, which its user can change; gives up after 300 s
	{namePrefix: "gemini-cli-mcp-client", cutLimit: TextBudget{Chars: 40_000}, callTimeout: 570 * time.Second, ShowsRawErrors: true, parsesText: true, QueueTimeout: 5 * time.Second}, // shows the first 8,000 and last 32,000, and a file; gives up after 600 s
	{namePrefix: "claude-code", cutLimit: TextBudget{Chars: 50_000}, callTimeout: LongestCall},                                                                                        // shows 2 KB, and a file; more if _meta says so
	{namePrefix: "opencode", callTimeout: 200 * time.Second},
	{namePrefix: "cline", cutLimit: TextBudget{Chars: 7_800}, ShowsRawResult: true}, // truncates the JSON at 8,000
	{namePrefix: "continue-", ShowsRawResult: true},
}

// ForClient returns the profile of the client with this name, or a zero one.
func ForClient(name string) Profile {
	name = strings.ToLower(name)
	for _, p := range profiles {
		if strings.HasPrefix(name, p.namePrefix) {
			return p
		}
	}
	return Profile{}
}

// ReplyBudget returns the bounds of the text that reaches the client's model.
func (p Profile) ReplyBudget() TextBudget {
	b, cut := TextBudget{Chars: defaultReplyChars}, p.cutLimit
	if cut.Chars > 0 {
		b.Chars = min(b.Chars, cut.Chars/10*9)
	}
	if cut.Bytes > 0 {
		b.Bytes = cut.Bytes / 10 * 9
		b.Chars = min(b.Chars, b.Bytes)
	}
	return b
}

// MaxCallTime returns how long the client waits for a call. assumed applies to clients whose time
// is unknown; 0 means DefaultCallWait.
func (p Profile) MaxCallTime(assumed time.Duration) time.Duration {
	return cmp.Or(p.callTimeout, assumed, DefaultCallWait)
}
