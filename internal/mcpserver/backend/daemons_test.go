package backend_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
)

// A recordedChoices refuses every session, and records by which name it was asked for.
type recordedChoices struct {
	backend.DaemonChoices

	daemon string
	asked  *[]string
}

func (c recordedChoices) IsLanguage(name string) bool {
	*c.asked = append(*c.asked, c.daemon+": "+name)
	return name == "r"
}

func (c recordedChoices) NewParams(string, string, func(*sandbox.Policy) *sandbox.Policy) (protocol.CreateParams, *sandbox.Policy, error) {
	return protocol.CreateParams{}, nil, errors.New("refused by " + c.daemon)
}

// A remoteLog has what was done with the daemons of a set.
type remoteLog struct {
	asked, connected, closed []string
	connectError             error
}

// newDaemonSet returns the daemons here and at the remotes gpu and hpc; a job on hpc is missing.
func newDaemonSet() (*backend.DaemonSet, *remoteLog) {
	l := new(remoteLog)
	newDaemon := func(name string) *backend.SingleDaemon {
		return &backend.SingleDaemon{BaseName: "work", Choices: recordedChoices{daemon: name, asked: &l.asked}, Close: func() { l.closed = append(l.closed, name) }}
	}
	set := &backend.DaemonSet{
		DefaultRemote: "here", DefaultDaemon: newDaemon("here"),
		Connect: func(_ context.Context, remote string) (*backend.SingleDaemon, error) {
			l.connected = append(l.connected, remote)
			if l.connectError != nil {
				return nil, l.connectError
			}
			return newDaemon(remote), nil
		},
		IsJobMissing: func(remote string) (bool, error) { return remote == "hpc", nil },
	}
	set.AllowRemotes([]string{"gpu", "hpc"})
	return set, l
}

func TestDaemonSet(t *testing.T) {
	t.Parallel()

	t.Run("names its remotes, with the default one first", func(t *testing.T) {
		t.Parallel()
		set, _ := newDaemonSet()
		if got := set.Remotes(); !slices.Equal(got, []string{"here", "gpu", "hpc"}) {
			t.Errorf("got %q", got)
		}
	})

	t.Run("opens a session on the remote in its name", func(t *testing.T) {
		t.Parallel()
		set, l := newDaemonSet()
		for _, name := range []string{"a", "gpu/a", "gpu/b", "hpc/c"} {
			remote, _, found := strings.Cut(name, "/")
			if !found {
				remote = "here"
			}
			if _, err := open(t, set, name, "r"); err == nil || err.Error() != "refused by "+remote {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if want := []string{"here: a", "gpu: a", "gpu: b", "hpc: c"}; !slices.Equal(l.asked, want) {
			t.Errorf("asked for %q, want %q", l.asked, want)
		}
		if want := []string{"gpu", "hpc"}; !slices.Equal(l.connected, want) {
			t.Errorf("connected to %q, want once to each of %q", l.connected, want)
		}
	})

	t.Run("connects again after a failure", func(t *testing.T) {
		t.Parallel()
		set, l := newDaemonSet()
		l.connectError = errors.New("no route")
		for range 2 {
			if _, err := open(t, set, "gpu/a", "r"); !errors.Is(err, l.connectError) {
				t.Errorf("got %v", err)
			}
		}
		if len(l.connected) != 2 {
			t.Errorf("connected %d times, want 2", len(l.connected))
		}
	})

	t.Run("starts no job to list sessions", func(t *testing.T) {
		t.Parallel()
		set, l := newDaemonSet()
		_, err := set.Sessions(t.Context(), "hpc")
		if err == nil || !strings.Contains(err.Error(), `hpc needs a job, which is not started; a session there, such as "hpc/main", starts it`) || len(l.connected) > 0 {
			t.Errorf("got %v, connected to %q", err, l.connected)
		}
	})

	t.Run("closes what it has connected", func(t *testing.T) {
		t.Parallel()
		set, l := newDaemonSet()
		if _, err := open(t, set, "gpu/a", "r"); err == nil {
			t.Fatal("got a session")
		}
		l.closed = nil
		set.DefaultDaemon.Close = func() {} // the others close at the same time
		set.Close()
		if want := []string{"gpu"}; !slices.Equal(l.closed, want) {
			t.Errorf("closed %q, want %q", l.closed, want)
		}
	})
}

// The server needs only what all of them promise.
var (
	_ backend.Backend = (*backend.Local)(nil)
	_ backend.Backend = (*backend.DaemonSet)(nil)
	_ session.Session = (*backend.SessionHandle)(nil)
)
