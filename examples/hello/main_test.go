package main

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain})
}

func TestExample(t *testing.T) {
	t.Parallel()
	if spec := python.Spec(python.Options{}); spec.Err != nil {
		t.Skipf("needs Python: %v", spec.Err)
	}
	var out strings.Builder
	if err := sayHello(t.Context(), &out); err != nil || out.String() != "42\n" {
		t.Errorf("got %q, %v", &out, err)
	}
}
