package confine

import (
	"bufio"
	"os"
	"path/filepath"
)

// maxOwnRepos bounds the repositories that a session makes and may change altogether.
const maxOwnRepos = 10_000

// ownReposFileIn returns the file that has the repositories which the workers of a session made, by the
// identities of their directories. It lies where the session sees nothing.
func ownReposFileIn(state string) string { return filepath.Join(state, "repositories") }

// readOwnRepos reads that file. Without it they are protected like those of others.
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

// isOwnRepo reports whether the session made the directory of a repository, or the file that names it.
func (p *planner) isOwnRepo(git string) bool {
	return len(p.ownRepos) > 0 && p.ownRepos[fileIdentity(git)]
}
