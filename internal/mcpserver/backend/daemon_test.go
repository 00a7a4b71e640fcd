package backend_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A scriptedDaemon leads to a daemon at a remote, which has one session of the client from an
// earlier visit, and creates others.
type scriptedDaemon struct{}

func (scriptedDaemon) String() string { return "gpu" }

func (d scriptedDaemon) Dial(context.Context) (net.Conn, error) {
	local, remote := net.Pipe()
	go d.serve(remote)
	return local, nil
}

func (scriptedDaemon) serve(remote net.Conn) {
	for in := bufio.NewScanner(remote); in.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name, Session string }
		}
		_ = json.Unmarshal(in.Bytes(), &m)
		if m.ID == nil {
			continue
		}
		outcome := `"result":{}`
		switch m.Method {
		case protocol.MethodHello:
			outcome = fmt.Sprintf(`"result":{"version":"x","protocol":%d,"pid":1,"started":"2026-01-01T00:00:00Z"}`, protocol.Version)
		case protocol.MethodGet:
			if outcome = `"error":{"code":-32000,"message":"no such session","data":{"kind":"no_session"}}`; m.Params.Session == "work" {
				outcome = `"result":{"name":"work","language":"python","state":"idle","packages":["numpy"]}`
			}
		case protocol.MethodCreate:
			outcome = fmt.Sprintf(`"result":{"name":%q,"language":"r","state":"idle"}`, m.Params.Name)
		case protocol.MethodReadCursor:
			outcome = `"result":{"seq":41,"reader":"work"}`
		case protocol.MethodList:
			outcome = `"result":{"sessions":[{"name":"work"},{"name":"work-r"},{"name":"work-2"},{"name":"other"}]}`
		}
		fmt.Fprintf(remote, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, outcome)
	}
}

// A userChoices has the choices of a user who has two languages and wants two packages.
type userChoices struct{ refusal error }

func (userChoices) IsLanguage(name string) bool { return name == "python" || name == "r" }

func (userChoices) NewParams(lang, dir string, narrow func(*sandbox.Policy) *sandbox.Policy) (protocol.CreateParams, *sandbox.Policy, error) {
	return protocol.CreateParams{Language: lang, Dir: dir}, narrow(nil), nil
}

func (c userChoices) CheckExisting(*sandbox.Policy, session.Info) error { return c.refusal }

func (userChoices) MissingPackages(has []string) (missing []string, err error) {
	for _, name := range []string{"numpy", "pandas"} {
		if !slices.Contains(has, name) {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

func (userChoices) AddCommands(h *backend.SessionHandle, name string, _ session.Info) {
	h.AttachCommand = "repl attach " + name
}

// newRemoteSet returns a set whose remote gpu is the scripted daemon.
func newRemoteSet(t *testing.T, choices userChoices) *backend.DaemonSet {
	t.Helper()
	set := &backend.DaemonSet{
		DefaultDaemon: &backend.SingleDaemon{Close: func() {}},
		Connect: func(context.Context, string) (*backend.SingleDaemon, error) {
			l := client.New(scriptedDaemon{}, nil)
			return &backend.SingleDaemon{Client: l, BaseName: "work", Packages: []string{"numpy", "pandas"}, Choices: choices, Close: func() { _ = l.Close() }}, nil
		},
		IsJobMissing: func(string) (bool, error) { return false, nil },
	}
	set.AllowRemotes([]string{"gpu"})
	t.Cleanup(set.Close)
	return set
}

func TestSingleDaemon(t *testing.T) {
	t.Parallel()

	t.Run("opens the session of an earlier visit where the client left it", func(t *testing.T) {
		t.Parallel()
		h, err := open(t, newRemoteSet(t, userChoices{}), "gpu/main", "python")
		if err != nil {
			t.Fatal(err)
		}
		if h.IsNew || h.Name() != "work" || h.Author() != "work" || h.LastSeen != 41 || !slices.Equal(h.MissingPackages, []string{"pandas"}) {
			t.Errorf("got %+v", h)
		}
		if h.Link == nil || h.SaveCursor == nil || h.AttachCommand != "repl attach work" || h.InitialInfo.Language != "python" {
			t.Errorf("got %+v", h)
		}
		h.SaveCursor(timeline.Seq(42))
		if err := h.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if now := h.InfoOrEnded(t.Context()); now.State == session.StateEnded {
			t.Error("the session ended when the client left")
		}
	})

	t.Run("creates a missing one under the name of its language", func(t *testing.T) {
		t.Parallel()
		refusal := errors.New("for existing sessions only")
		h, err := open(t, newRemoteSet(t, userChoices{refusal}), "gpu/r", "r")
		if err != nil {
			t.Fatal(err)
		}
		if !h.IsNew || h.Name() != "work-r" || h.MissingPackages != nil {
			t.Errorf("got %+v", h)
		}
	})

	t.Run("creates none without a language", func(t *testing.T) {
		t.Parallel()
		if _, err := open(t, newRemoteSet(t, userChoices{}), "gpu/other", ""); !errors.Is(err, session.ErrClosed) {
			t.Errorf("got %v, want no session", err)
		}
	})

	t.Run("refuses one that does not fit", func(t *testing.T) {
		t.Parallel()
		refusal := errors.New("it has another sandbox")
		if _, err := open(t, newRemoteSet(t, userChoices{refusal}), "gpu/main", "python"); !errors.Is(err, refusal) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("lists sessions by the names that Open takes", func(t *testing.T) {
		t.Parallel()
		all, err := newRemoteSet(t, userChoices{}).Sessions(t.Context(), "gpu")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, i := range all {
			names = append(names, i.Name)
		}
		if want := []string{"gpu/main", "gpu/r", "gpu/work-2", "gpu/other"}; !slices.Equal(names, want) {
			t.Errorf("got %q, want %q", names, want)
		}
	})
}
