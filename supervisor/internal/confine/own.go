package confine

import (
	"bufio"
	"os"
	"path/filepath"
)

// mostOwn bounds the repositories that a session makes and may change altogether.
const mostOwn = 10_000

// ownFileIn returns the file that has the repositories which the workers of a session made, by the
// identities of their directories. It lies where the session sees nothing.
func ownFileIn(state string) string { return filepath.Join(state, "repositories") }

// ownRepositories reads that file. Without it they are protected like those of others.
func ownRepositories(state string) map[string]bool {
	own := map[string]bool{}
	f, err := os.Open(ownFileIn(state))
	if err != nil {
		return own
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && len(own) < mostOwn; {
		if id := lines.Text(); id != "" {
			own[id] = true
		}
	}
	return own
}

// isOwn reports whether the session made the directory of a repository, or the file that names it.
func (p *planner) isOwn(git string) bool { return len(p.own) > 0 && p.own[identity(git)] }
