package plan

import (
	"bufio"
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
)

// MaxOwnRepos bounds the repositories that a session made and may change as a whole.
const MaxOwnRepos = 10_000

// OwnReposFileIn returns the path of the list of repositories that the workers of a session made,
// by the identities of their directories. The session cannot see it.
func OwnReposFileIn(state string) string { return filepath.Join(state, "repositories") }

// ReadOwnRepos reads that list. Without it, the repositories are protected like those of others.
func ReadOwnRepos(state string) map[string]bool {
	own := map[string]bool{}
	f, err := os.Open(OwnReposFileIn(state))
	if err != nil {
		return own
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && len(own) < MaxOwnRepos; {
		if id := lines.Text(); id != "" {
			own[id] = true
		}
	}
	return own
}

// isOwnRepo reports whether the session made a git directory, or the .git file that names one.
func (p *planner) isOwnRepo(git string) bool {
	return len(p.ownRepos) > 0 && p.ownRepos[filestate.IdentityOf(git)]
}
