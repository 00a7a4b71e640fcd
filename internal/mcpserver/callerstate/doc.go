// Package callerstate stores what an MCP server knows of one caller: its sessions, how far it has
// read in each, and which of its calls owns the turn. A SessionSet finds the session that a call
// names, and opens it if it does not exist. A CallerSession is the caller's side of one session.
//
// Pure functions decide which session a name means: targetFacts.resolve, and resolveExisting for
// calls that create none. Package callorder decides which call runs next, and this package passes
// its decisions on. Nothing slow happens under the lock that every call takes: see slowFact.
//
// The package knows no arguments and no results, and does not ask the user.
//
// # Goroutines
//
//	name        started by    ends when                         owns
//	openLocked  a call, or    the worker process exists, 60 s   the start of one session,
//	            OpenAhead     after its preparation             and its preparation
//	expireIdle  a timer       the session is closed             a session without calls
//	asking      a call        a remote has listed its sessions  one remote's part of the list
//
// SessionSet.Close waits for the first two, and the call for the last.
//
// # Locks
//
// A lock of the first column may be held while a lock of the second is taken, never the other way
// round:
//
//	CallerSession.answerMu  AnswerInProgress.mu, SessionSet.mu
//	AnswerInProgress.mu     SessionSet.mu
//	SessionSet.mu           mcptransport.ToolCall.mu
package callerstate
