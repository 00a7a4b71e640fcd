package escapes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
)

// tryEnv makes this program try a sandbox in the directory that it names.
const tryEnv = "ESCAPES_TRY"

func runTrySandbox(work string) (status int) {
	dir, err := os.MkdirTemp("", "try-")
	if text := os.Getenv(faultEnv); text != "" && err == nil {
		err = installFault(text)
	}
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		var sup *supervisor.Supervisor
		if sup, err = supervisor.New(&supervisor.Options{Dir: filepath.Join(dir, "sessions")}); err == nil {
			var notices []string
			notices, err = sup.TrySandbox(context.Background(), &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}, work)
			if err == nil {
				fmt.Println("started:", strings.Join(notices, "; "))
			}
		}
	}
	if err != nil {
		fmt.Println("refused:", err)
	}
	return 0
}

func TestMain(m *testing.M) {
	if os.Getenv(noNamespacesEnv) == "prepare" {
		fmt.Println(forbidNamespaces())
		os.Exit(1)
	}
	testmain.Run(m, testmain.Options{
		Monitor:  supervisor.MonitorMain,
		Programs: []testmain.Program{{Variable: tryEnv, Main: runTrySandbox}, {Variable: holdEnv, Main: runHeldSession}},
		RunAll:   sandboxcheck.RunUnprivileged,
	})
}
