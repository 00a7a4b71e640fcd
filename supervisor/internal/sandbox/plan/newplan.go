package plan

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// NewPlan returns the plan, and notices for the user of the session.
func NewPlan(s *sandbox.Policy, o Origin) (_ *Plan, notices []string, err error) {
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	p := newPlanner(o)
	work, err := p.workspaceDirs(s, o)
	if err != nil {
		return nil, nil, err
	}
	p.workspaces, p.strict = len(work), true
	p.addHiddenPaths(s, o)
	for _, d := range s.Writable {
		dir, err := p.resolveWritable(d)
		if err == nil && linkpath.HasLinkIn(d, work) {
			err = linkError("make %s writable", d, dir)
		}
		if err == nil {
			err = p.checkIntended(s, o, d, dir, work[:p.workspaces])
		}
		if err != nil {
			return nil, nil, err
		}
		work = append(work, dir)
	}
	written := &homedir.SettingsWriter{Rules: &p.Rules, Dir: o.Settings}
	if err := p.addMounts(s, o, work, written, func() {
		p.protectDirs(work, maxSearchedEntries)
		p.protectNamed(s.Protected, work)
	}); err != nil {
		return nil, nil, err
	}
	if written.HasUnfollowed {
		p.AddNotice("your toolchains and caches have more than %d files that may get a login; a login written to one of the others from now on is visible until a reset", homedir.MaxToolFiles)
	}
	p.recordUnshown()
	if len(p.Mounts) > maxMounts {
		return nil, nil, fmt.Errorf("the sandbox would need %d mounts, and the maximum is %d; choose a smaller workspace", len(p.Mounts), maxMounts)
	}
	plan := &Plan{State: mountlist.Path(paths.RealOrEmpty(o.State)), Network: s.Network == sandbox.NetworkFull, Egress: s.Network == sandbox.NetworkList, Absent: p.absent, writableDirs: work, userProtected: s.Protected, unshownPaths: p.unshownPaths, home: p.Home, tempDirs: p.TempDirs}
	plan.GitTargets, plan.Unreadable, plan.gitEnv = p.gitTargets, p.unreadablePaths(), p.gitEnv
	for _, w := range work {
		plan.GuardedDirs = append(plan.GuardedDirs, mountlist.Path(w))
	}
	for _, m := range p.Mounts {
		plan.Mounts = append(plan.Mounts, m)
	}
	sort.SliceStable(plan.Mounts, func(i, j int) bool { return plan.Mounts[i].Path < plan.Mounts[j].Path }) // parents sort before their children
	plan.hiddenPaths = p.HiddenPaths
	plan.watch = newMountWatch(p, written, work, o.Events, func(work, added []string) (*planner, error) {
		current := newPlanner(o)
		current.knownDocuments, current.packageIndexes, current.ownRepos, current.workspaces, current.missingDirs, current.addedPaths = p.knownDocuments, p.packageIndexes, p.ownRepos, p.workspaces, p.missingDirs, added
		current.addHiddenPaths(s, o)
		return current, current.addMounts(s, o, work, written, func() {})
	})
	return plan, p.Notices, nil
}

// WritablePaths returns the paths without links that a session with this sandbox would write. It
// leaves out paths that no plan makes writable.
func WritablePaths(s *sandbox.Policy, o Origin) []string {
	p := newPlanner(o)
	work, _ := p.workspaceDirs(s, o)
	for _, d := range s.Writable {
		if found, err := p.resolveWritable(d); err == nil {
			work = append(work, found)
		}
	}
	return work
}

// addMounts adds the mounts of a session that writes the work directories. protect adds the
// protected paths in them.
func (p *planner) addMounts(s *sandbox.Policy, o Origin, work []string, written *homedir.SettingsWriter, protect func()) error {
	for _, d := range p.TempDirs {
		p.Set(d, mountlist.EmptyDir)
	}
	p.UntrustedDirs, p.NoDocuments = p.findUntrusted(s, o, work), s.Home == sandbox.HomeTools
	p.ExtraHomes = p.FindOtherHomes(o.OtherHomes, work)
	written.Rules = &p.Rules
	if err := written.WriteFiles(); err != nil {
		return err
	}
	for _, h := range p.HiddenPaths {
		if !h.IsPlanned {
			p.ExcludedPaths = append(p.ExcludedPaths, h.Name, linkpath.RealOrAbsent(h.Name))
		}
	}
	for _, name := range homedir.WithheldNames {
		p.ExcludedPaths = append(p.ExcludedPaths, p.HomePath(name))
	}
	for name := range written.Files {
		if homedir.IsToolFile(name) && linkpath.IsInAny(name, homedir.ReadableNames) { // a mount there could end when the file is replaced
			p.ExcludedPaths = append(p.ExcludedPaths, p.HomeLinkPath(name))
		}
	}
	p.buildHome(s, o, work)
	p.addLayers(s, o, work)
	if err := p.revealPaths(slices.Concat(s.Readable, p.addedPaths), o, work); err != nil {
		return err
	}
	for i, d := range work {
		why := mountlist.ReasonNamed
		if i < p.workspaces {
			why = mountlist.ReasonWorkspace
		}
		p.WithReason(why, func() { p.Set(d, mountlist.WritableBind) })
	}
	protect()
	sessions := paths.RealOrEmpty(o.Sessions)
	p.Set(sessions, mountlist.ReadOnlyParent)
	p.WithReason(mountlist.ReasonInterpreter, func() { p.showRuntime(o) })
	p.dropUnmountable()
	for _, d := range o.Files {
		p.Set(paths.RealOrEmpty(d), mountlist.WritableBind)
	}
	h := p.homeBuilder(o, work)
	for name, source := range written.Files {
		h.ShowWritten(name, source)
	}
	for path, source := range o.Replaced {
		if path = paths.RealOrEmpty(path); path != "" {
			p.Mounts[path] = mountlist.Mount{Path: mountlist.Path(path), Kind: mountlist.ReplacedFile, Source: mountlist.Path(source)}
		}
	}
	p.CheckedPaths = append(p.CheckedPaths, filepath.Clean(o.homeDir()))
	p.hideAliases(slices.Concat(work, []string{sessions, paths.RealOrEmpty(o.Dir), paths.RealOrEmpty(o.State), paths.RealOrEmpty(o.Program)}))
	return p.hidePaths(append(slices.Clone(work), sessions))
}

// buildHome adds the home directory and the mounts in it.
func (p *planner) buildHome(s *sandbox.Policy, o Origin, work []string) {
	first := p.knownDocuments == nil
	if first {
		p.knownDocuments = map[string]bool{}
	}
	h := p.homeBuilder(o, work)
	h.IsFirst = first
	h.BuildHome(homedir.HomeInput{Path: o.Path, Program: o.Program, Env: o.Env, HasDocuments: s.Home != sandbox.HomeTools})
}

// workspaceDirs returns the real paths that the sandbox's level makes writable.
func (p *planner) workspaceDirs(s *sandbox.Policy, o Origin) ([]string, error) {
	if s.Level != sandbox.Workspace {
		return nil, nil
	}
	dir := s.Workspace
	if dir == "" {
		dir = o.Dir
	}
	found, err := resolveDirectory(dir)
	if err != nil {
		return nil, err
	}
	if why := p.TooWideReason(found); why != "" {
		p.AddNotice("%s %s, so the sandbox does not make it writable and this session is read-only; start in a project directory, or name one to write", dir, why)
		return nil, nil
	}
	return append([]string{found}, p.repositoryOf(found)...), nil
}

// addLayers adds overlays for the directories that the session writes only as copies.
func (p *planner) addLayers(s *sandbox.Policy, o Origin, work []string) {
	root := ""
	if p.Home != "" {
		// pyenv and conda install a runtime's packages below the home directory.
		if root = filepath.Dir(filepath.Dir(paths.RealOrEmpty(o.Program))); !paths.Contains(p.Home, root) || root == p.Home {
			root = ""
		}
	}
	for _, d := range append(slices.Clone(s.Layered), root) {
		p.CheckedPaths = append(p.CheckedPaths, filepath.Clean(d))
		dir := paths.RealOrEmpty(d)
		if st, err := os.Stat(dir); dir == "" || err != nil || !st.IsDir() || p.TooWideReason(dir) != "" || p.Mounts[dir].Kind == mountlist.WritableParent || p.IsLinkedAway(d, dir, p.IsVisible) {
			continue
		}
		if !linkpath.IsInAny(dir, work) { // directories in work are writable themselves
			why := mountlist.ReasonTool
			if d == root {
				why = mountlist.ReasonInterpreter
			}
			p.WithReason(why, func() { p.homeBuilder(o, work).AddLayer(dir) })
		}
		if p.Mounts[dir].Kind == mountlist.OverlayMount && d == root { // the overlay shows all of it; files with logins get their own mounts
			maps.DeleteFunc(p.Mounts, func(path string, place mountlist.Mount) bool {
				return path != dir && paths.Contains(dir, path) && (place.Kind == mountlist.GrantableBind || place.Kind == mountlist.ReadOnlyParent)
			})
		}
	}
	// A layer inside another layer is part of it.
	for path := range p.Mounts {
		for above := filepath.Dir(path); above != "/" && p.Mounts[path].Kind == mountlist.OverlayMount; above = filepath.Dir(above) {
			if p.Mounts[above].Kind == mountlist.OverlayMount {
				delete(p.Mounts, path)
			}
		}
	}
}

// dropUnmountable removes directories of the session without a mount point, such as a missing
// directory that a variable names where the session only reads. If it is created later, it contains
// logins of the user.
func (p *planner) dropUnmountable() {
	maps.DeleteFunc(p.Mounts, func(path string, place mountlist.Mount) bool {
		if place.Kind != mountlist.WritableParent || p.IsEmptyAt(path) {
			return false
		}
		if p.strict && !filestate.IsPresent(path) {
			p.missingDirs = append(p.missingDirs, path)
		}
		return !linkpath.IsDir(path) || slices.Contains(p.missingDirs, path)
	})
	for _, path := range p.missingDirs {
		p.HiddenPaths = append(p.HiddenPaths, homedir.HiddenPath{Name: path, RealPath: paths.RealOrEmpty(path)})
	}
}

// showRuntime lets the worker read its directory and its runtime even if they are in a directory
// for temporary files.
func (p *planner) showRuntime(o Origin) {
	dirs := []string{paths.RealOrEmpty(o.Dir)}
	for _, program := range []string{filepath.Clean(o.Program), paths.RealOrEmpty(o.Program)} {
		shown := filepath.Dir(program)
		if slices.Contains(p.TempDirs, shown) {
			shown = paths.RealOrEmpty(program) // but no files next to it; a link that leads elsewhere is not shown
		} else if above := filepath.Dir(shown); !slices.Contains(p.TempDirs, above) {
			shown = above
		}
		dirs = append(dirs, shown)
	}
	for _, path := range dirs {
		if p.IsEmptyAt(path) && p.Mounts[path].Kind == "" {
			p.Set(path, mountlist.ReadOnlyBind)
		}
	}
}
