package diagnose

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/kernelspecs"
)

func TestExamineKernels(t *testing.T) {
	kernelspecs.Install(t, map[string]string{"turnstone-basic": kernelspecs.Usable(t), "turnstone-bad": `{}`})
	listed := map[string]string{}
	all := examineKernels(t.Context())
	for _, k := range all {
		listed[k.Name] = k.Problem
	}
	if problem, ok := listed["jupyter:turnstone-basic"]; !ok || problem != "" || listed["jupyter:turnstone-bad"] == "" {
		t.Errorf("%+v", all)
	}
	var p cmdkit.LineBuilder
	printKernels(&p, all)
	if text := p.String(); !strings.Contains(text, "jupyter:turnstone-basic") || !strings.Contains(text, "cannot be used") {
		t.Error(text)
	}
}
