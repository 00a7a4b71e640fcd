package confine

import (
	"bufio"
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
)

// maxOwnRepos bounds the repositories that a session made and may change as a whole.
const maxOwnRepos = 10_000

// ownReposFileIn returns the path of the list of repositories that the workers of a session made,
// by the identities of their directories. The session cannot see it.
func ownReposFileIn(state string) string { return filepath.Join(state, "repositories") }

// readOwnRepos reads that list. Without it, the repositories are protected like those of others.
func readOwnRepos(state string) map[string]bool {
	own := map[string]bool{}
	f, err := os.Open(ownReposFileIn(state))
	if err != nil {
		return own
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && len(own) < maxOwnRepos; {
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
