//go:build unix

package remote

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
)

func TestReportOtherVersion(t *testing.T) {
	t.Parallel()
	for greeting, want := range map[string]string{
		`{"version":"v0.9.0","protocol":1,"host":"far"}`:                          "repl: the daemon there is v0.9.0 and is used unchanged; repl daemon drain --remote gpu ends it when its work is done",
		`{"version":"v9.0.0","protocol":99,"host":"far"}`:                         "repl: the daemon there is v9.0.0 and speaks protocol 99, which this program does not support; ",
		`{"version":"` + cmdkit.ProgramVersion() + `","protocol":1,"host":"far"}`: "",
		`{"error":"no daemon answers","kind":"unreachable","host":"far"}`:         "",
	} {
		var notes strings.Builder
		way := &remote.CommandDialer{Prefix: []string{"sh", "-c", `printf '\nturnstone-bridge 1 %s ` + greeting + `\n' "$4"; cat`, "sh"}}
		reportOtherVersion(t.Context(), &notes, way, &daemonlink.DaemonTarget{Remote: "gpu"})
		if got := notes.String(); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q", greeting, got)
		}
	}
}
