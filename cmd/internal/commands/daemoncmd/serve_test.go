package daemoncmd

import (
	"errors"
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/internal/testkit/kernelspecs"
)

// A daemon offers an installed kernel as a language.
func TestSpecFor_Kernel(t *testing.T) {
	kernelspecs.Install(t, map[string]string{"turnstone-basic": kernelspecs.Usable(t)})
	if names := languages.Names(); !slices.Contains(names, "jupyter:turnstone-basic") || names[0] != "python" {
		t.Errorf("%q", names)
	}
	s, err := specFor(client.CreateParams{Language: "jupyter:turnstone-basic", Dir: t.TempDir()})
	if err = errors.Join(err, s.Err); err != nil || s.Args[0] != languages.KernelWorker {
		t.Errorf("%+v, %v", s, err)
	}
}
