//go:build unix

package client

import (
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/session"
)

func TestDialRemote(t *testing.T) {
	t.Run("rejects another protocol version without a call", func(t *testing.T) {
		t.Parallel()
		_, err := Dial(t.Context(), &remote.CommandDialer{Name: "gpu", Prefix: []string{"sh", "-c", `printf '\nturnstone-bridge 1 %s {"version":"9","protocol":99}\n' "$4"; cat`, "sh"}, GreetingTimeout: time.Minute})
		if session.KindOf(err) != session.KindProtocol {
			t.Fatalf("got %v", err)
		}
		for _, part := range []string{"gpu (sh -c", "is newer than this program", "version 9", "protocol 99", "repl daemon drain"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("got %q, want %q in it", err, part)
			}
		}
	})
}
