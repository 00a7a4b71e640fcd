// Command live-page shows a session of Python on a web page while its code runs: text, images, and
// how each input ended. A page that is opened or loses its connection gets everything from where it
// left off, because each event has a number.
//
//	go run ./examples/live-page
package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

//go:embed index.html
var indexHTML []byte

func main() {
	supervisor.MonitorMain()
	sup, err := supervisor.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sup.Close()
	spec := python.Spec(python.Options{})
	spec.Sandbox = &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}
	s, err := sup.Open(context.Background(), "main", spec)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	token := rand.Text()
	fmt.Printf("http://%s/?token=%s\n", l.Addr(), token)
	log.Fatal(http.Serve(l, newHandler(s, token)))
}

// newHandler returns the server of the page. A user with the token can run code.
func newHandler(s session.Session, token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'")
		_, _ = w.Write(indexHTML)
	})
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = sendText(r.Context(), s, string(text))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) { streamEvents(w, r, s) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("token")), []byte(token)) == 0 {
			http.Error(w, "use the whole address that the program printed", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// sendText answers the question of the running code, or else runs text.
func sendText(ctx context.Context, s session.Session, text string) error {
	now, err := s.Wait(ctx, 0, &session.WaitOptions{Poll: true})
	if err != nil {
		return err
	}
	if question := now.InputRequest; question != nil {
		_, err = s.Answer(ctx, question.ID, session.Input{Data: []byte(text + "\n")})
	} else {
		_, err = s.Submit(ctx, text)
	}
	return err
}

// streamEvents sends what happens in a session as server-sent events, until the page is closed.
func streamEvents(w http.ResponseWriter, r *http.Request, s session.Session) {
	w.Header().Set("Content-Type", "text/event-stream")
	sending := http.NewResponseController(w)
	_ = sending.Flush()                                                  // the page is connected, even if nothing has happened yet
	after, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64) // the browser sends it when it reconnects
	for e, err := range s.Events(r.Context(), timeline.Seq(after)) {
		if err != nil {
			return
		}
		kind, data := describe(e)
		if kind == "" {
			continue
		}
		line, _ := json.Marshal(data)
		if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, kind, line); err != nil {
			return
		}
		_ = sending.Flush()
	}
}

// describe returns what the page shows of an event, or "".
func describe(e timeline.Event) (kind string, data any) {
	switch b := e.Body.(type) {
	case timeline.TurnStarted:
		return "input", string(b.Input)
	case timeline.Text:
		return "text", b.Data // as base64: an event may end inside a character
	case timeline.Display:
		for mime, data := range b.Data {
			if strings.HasPrefix(mime, "image/") {
				return "image", map[string]any{"type": mime, "data": data}
			}
		}
	case timeline.InputRequested:
		return "question", b.Prompt
	case timeline.Notice:
		return "notice", b.Message
	case timeline.TurnEnded:
		return "end", b.Outcome
	}
	return "", nil
}
