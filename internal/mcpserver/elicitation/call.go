package elicitation

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/browserprompt"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/timeline"
)

// An Asker holds the data that all questions to one client share.
type Asker struct {
	Pages       browserprompt.Pages
	Lifetime    context.Context // no question outlives it
	HasBrowser  bool            // the user probably has a browser on this machine
	DeniesInput bool            // every read of standard input gets end of file, and the user is not asked
}

// An AskingCall is a call about a session, with everything that is needed to ask the user on its
// behalf.
type AskingCall struct {
	Asker     *Asker
	Questions *SessionQuestions
	Tool      *mcptransport.ToolCall
	Request   *mcp.CallToolRequest
	Beat      *reply.Heartbeat

	Session       *backend.SessionHandle
	SessionName   string    // as the caller knows it
	ReplyDeadline time.Time // when the call must be answered, because its client waits no longer

	decision    *userDecision // nil if the call carries no answer of the user
	deniedReads int           // reads that got end of file, because answers are not allowed
}

// A userDecision is the user's decision about an input request, until it is applied.
type userDecision struct {
	requestID timeline.Seq
	question  *Question
	answer    *mcp.ElicitResult
}

// CarryAnswer makes the call carry the answer to a question that an earlier call has returned.
func (c *AskingCall) CarryAnswer(requestID timeline.Seq, q *Question, answer *mcp.ElicitResult) {
	c.decision = &userDecision{requestID, q, answer}
}

// DropAnswer returns a notice if the call carries an answer that came after its input request was
// over, or "". The call carries none afterwards.
func (c *AskingCall) DropAnswer() (notice string) {
	if c.decision != nil && c.decision.answer.Content != nil {
		notice = answerTooLate
	}
	c.decision = nil
	return notice
}

const answerTooLate = "the user's answer came too late and was not used"

// HasDeniedReads reports whether a read got end of file because answers are not allowed.
func (c *AskingCall) HasDeniedReads() bool { return c.deniedReads > 0 }
