//go:build unix

package client

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestSocket_PathTooLong(t *testing.T) {
	long := "/" + strings.Repeat("d", 200)
	_, err := Socket(long).Dial(t.Context())
	if session.KindOf(err) != session.KindUnreachable || !strings.Contains(err.Error(), "is 201 bytes long") || strings.Contains(err.Error(), "start one") {
		t.Errorf("got %v", err)
	}
}
