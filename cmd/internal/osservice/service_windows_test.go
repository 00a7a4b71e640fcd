package osservice_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/osservice"
)

func TestFindManager_Windows(t *testing.T) {
	if m, err := osservice.FindManager(); err == nil || !strings.Contains(err.Error(), "start repl serve with your session instead") {
		t.Errorf("got %+v, %v", m, err)
	}
}
