package webui

import (
	"context"
	"net/http"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/protocol"
	"github.com/turnstone-repl/turnstone/cmd/internal/console"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// An actionRequest is the body of a call that changes a session. It has the fields of all actions.
type actionRequest struct {
	Session string `json:"session"`

	Code string `json:"code"` // of run, complete and inspect

	InputRequest timeline.Seq `json:"input_request"` // of answer and permit
	Text         string       `json:"text"`          // of answer
	EOF          bool         `json:"eof"`           // of answer

	Keys   string `json:"keys"`   // of type, in the notation of session.Keys
	Secret bool   `json:"secret"` // of type

	Permission uint64 `json:"permission"` // of permit
	Choice     string `json:"choice"`     // of permit: "here", "always", "wider", "file" or "refuse"

	Language string `json:"language"` // of create
	Runtime  string `json:"runtime"`  // of create: which interpreter; "" is the usual one
	Dir      string `json:"dir"`      // of create; "" is the daemon's working directory

	Turn   uint64 `json:"turn"`   // of interrupt
	Cursor int    `json:"cursor"` // of complete and inspect, in bytes

	Table session.TableQuery `json:"table"` // of table
}

// addActionRoutes adds the calls that change a session or ask its worker. Each change is recorded under
// the author of the web UI.
func (s *Server) addActionRoutes(mux *http.ServeMux) {
	for path, do := range map[string]func(context.Context, *client.Session, actionRequest) (any, error){
		"/api/run":       startTurn,
		"/api/answer":    answerRequest,
		"/api/type":      typeForProgram,
		"/api/permit":    decidePermission,
		"/api/interrupt": interruptTurn,
		"/api/restart":   restartWorker,
		"/api/complete":  completeCode,
		"/api/variables": listVariables,
		"/api/inspect":   inspectName,
		"/api/create":    s.createSession,
		"/api/close":     closeSession,
		"/api/table":     readTable,
	} {
		mux.HandleFunc("POST "+path, s.requireToken(func(w http.ResponseWriter, r *http.Request) {
			var a actionRequest
			if !readJSON(w, r, &a) {
				return
			}
			result, err := do(r.Context(), s.options.Link.Session(a.Session).WithAuthor(s.options.Author).WithWriteLock(), a)
			if err != nil {
				s.writeCallError(w, err)
				return
			}
			writeJSON(w, http.StatusOK, result)
		}))
	}
}

// startTurn starts a turn like a user at a terminal, so no other client answers its input requests.
func startTurn(ctx context.Context, on *client.Session, a actionRequest) (any, error) {
	turn, err := on.Submit(ctx, a.Code)
	return map[string]uint64{"turn": turn}, err
}

// answerRequest answers an input request with a line or with end of input.
func answerRequest(ctx context.Context, on *client.Session, a actionRequest) (any, error) {
	in := session.Input{Data: []byte(a.Text + "\n")}
	if a.EOF {
		in = session.Input{Data: []byte(a.Text), EOF: true}
	}
	turn, err := on.Answer(ctx, a.InputRequest, in)
	return map[string]uint64{"turn": turn}, err
}

// typeForProgram types keys for the programs of the active turn.
func typeForProgram(ctx context.Context, on *client.Session, a actionRequest) (any, error) {
	turn, err := on.Type(ctx, session.Keys{Text: a.Keys, Secret: a.Secret})
	return map[string]uint64{"turn": turn}, err
}

// decidePermission carries out a decision about the permission that the user has seen. If the
// session now asks for another permission, nothing is decided.
func decidePermission(ctx context.Context, on *client.Session, a actionRequest) (any, error) {
	choices := map[string]console.PermissionChoice{"here": console.AllowHere, "always": console.AllowAlways, "wider": console.AllowWider, "file": console.AllowFile, "refuse": console.Refuse}
	choice, ok := choices[a.Choice]
	if !ok {
		return nil, session.Errorf(session.KindInvalid, "choice must be here, always, wider, file or refuse, not %q", a.Choice)
	}
	now, err := on.Info(ctx)
	if err != nil {
		return nil, err
	}
	if now.InputRequest == nil || now.InputRequest.Permission == nil || now.InputRequest.Permission.ID != a.Permission {
		return nil, session.ErrStale
	}
	return struct{}{}, console.ApplyPermissionChoice(ctx, on, *now.InputRequest.Permission, choice)
}

func interruptTurn(ctx context.Context, on *client.Session, a actionRequest) (any, error) {
	result, err := on.Interrupt(ctx, a.Turn)
	return map[string]string{"result": string(result)}, err
}

func restartWorker(ctx context.Context, on *client.Session, _ actionRequest) (any, error) {
	return struct{}{}, on.Reset(ctx)
}

func completeCode(ctx context.Context, on *client.Session, a actionRequest) (any, error) {
	return on.Complete(ctx, a.Code, a.Cursor)
}

func listVariables(ctx context.Context, on *client.Session, _ actionRequest) (any, error) {
	return on.Variables(ctx)
}

func inspectName(ctx context.Context, on *client.Session, a actionRequest) (any, error) {
	return on.Inspect(ctx, a.Code, a.Cursor)
}

// createSession creates a session with the defaults of a user at a terminal: without a sandbox.
func (s *Server) createSession(ctx context.Context, _ *client.Session, a actionRequest) (any, error) {
	return s.options.Link.CreateSession(ctx, protocol.CreateParams{Name: a.Session, Language: a.Language, Runtime: a.Runtime, Dir: a.Dir})
}

func closeSession(ctx context.Context, on *client.Session, _ actionRequest) (any, error) {
	return struct{}{}, on.Close(ctx)
}

func readTable(ctx context.Context, on *client.Session, a actionRequest) (any, error) {
	return on.TablePage(ctx, a.Table)
}
