package daemonlink

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/internal/securefile"
)

// Images of remote sessions are kept on this machine for a day, for at most 32 sessions.
const (
	maxImageAge      = 24 * time.Hour
	maxImageSessions = 32
)

// SessionImageDir returns the local directory for the images of a remote session, and removes the
// directories of older sessions beyond the bounds. "" means that none is available. The directory
// depends only on the session and its remote, so that a restarted client finds the images it knows.
func SessionImageDir(remote, session string) string {
	state := cmdkit.StateDir()
	if state == "" {
		return ""
	}
	all := filepath.Join(state, "images")
	if securefile.MakeDir(all) != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(remote + "\x00" + session))
	own := fmt.Sprintf("%s-%x", session, sum[:4])
	type one struct {
		path    string
		changed time.Time
	}
	var others []one
	entries, _ := os.ReadDir(all)
	for _, e := range entries {
		if i, err := e.Info(); err == nil && e.IsDir() && e.Name() != own {
			others = append(others, one{filepath.Join(all, e.Name()), i.ModTime()})
		}
	}
	sort.SliceStable(others, func(i, j int) bool { return others[i].changed.After(others[j].changed) })
	for i, o := range others {
		if i >= maxImageSessions-1 || time.Since(o.changed) > maxImageAge {
			_ = os.RemoveAll(o.path)
		}
	}
	return filepath.Join(all, own)
}
