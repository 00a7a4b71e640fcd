package daemonlink

import (
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// CrashNoticeRewriter returns a function that rewrites events of a remote session for this machine.
// The notice about a crash of the previous session names a file of the remote machine. Its command
// lacks the option that names the remote.
func CrashNoticeRewriter(now session.Info, again string) func(timeline.Event) timeline.Event {
	return func(e timeline.Event) timeline.Event {
		if n, ok := e.Body.(timeline.Notice); ok && now.CrashedTranscript != "" && strings.Contains(n.Message, now.CrashedTranscript) {
			e.Body = timeline.Notice{Message: fmt.Sprintf("the session %s before this one crashed when its daemon was killed: %s %s", now.Name, cmdkit.RecoverCommand+" "+now.Name+again, cmdkit.RecoverHint)}
		}
		return e
	}
}
