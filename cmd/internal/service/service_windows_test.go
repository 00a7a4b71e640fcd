package service_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/service"
)

func TestFindManager_Windows(t *testing.T) {
	if m, err := service.FindManager(); err == nil || !strings.Contains(err.Error(), "start repl serve with your session instead") {
		t.Errorf("got %+v, %v", m, err)
	}
}
