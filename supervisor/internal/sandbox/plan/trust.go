package plan

import (
	"slices"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
)

// A session may have created any file or link in its workspace, and so may earlier sessions, whose
// workspaces are unknown. These files must not decide what a session sees. So a link is followed
// without limits only where no session writes. Any other link may lead only to what sessions see
// anyway.

// findUntrusted returns the directories whose files this session may have made. These are the
// directories that it writes, and its workspace, which it could write at another level.
func (p *planner) findUntrusted(s *sandbox.Policy, o Origin, work []string) []string {
	dir := s.Workspace
	if dir == "" {
		dir = o.Dir
	}
	if dir = paths.RealOrEmpty(dir); dir == "" || p.TooWideReason(dir) != "" {
		return work
	}
	return append(slices.Clone(work), dir)
}

// ReadUserSettings returns the text of one of the user's settings files. It returns nil if a
// session with this sandbox, at any level, may have created the file or a link to it.
func ReadUserSettings(s *sandbox.Policy, o Origin, path string) []byte {
	p := &planner{Rules: homedir.Rules{Home: paths.RealOrEmpty(o.Home), TempDirs: []string{"/tmp", "/var/tmp"}}}
	untrusted := p.findUntrusted(s, o, nil)
	for _, dir := range s.Writable {
		untrusted = append(untrusted, linkpath.RealOrAbsent(dir))
	}
	chain := linkpath.LinkChain(path)
	found := chain[len(chain)-1]
	if linkpath.IsInAny(found, untrusted) || linkpath.HasLinkIn(path, untrusted) {
		return nil
	}
	return linkpath.ReadText(filestate.OpenNoLinks(found))
}
