package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A sourceTree is a clone of the repository at the commit of a release, with its tag. The go
// command derives the version of the program from the tag.
type sourceTree struct {
	dir    string
	commit string // in full
	tag    string
	tagged bool      // the repository has the tag
	time   time.Time // of the commit, to the second
}

// checkOut clones the repository of this module.
func checkOut(ctx context.Context, tag, commit string) (*sourceTree, error) {
	root, err := runGit(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "turnstone-release-*")
	if err != nil {
		return nil, err
	}
	s := &sourceTree{dir: dir, tag: tag}
	if err := s.checkOutInto(ctx, root, commit); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *sourceTree) checkOutInto(ctx context.Context, root, commit string) (err error) {
	if s.commit, err = runGit(ctx, root, "rev-parse", "--verify", commit+"^{commit}"); err != nil {
		return err
	}
	tagged, err := runGit(ctx, root, "tag", "--list", s.tag)
	if err != nil {
		return err
	}
	if tagged != "" {
		at, err := runGit(ctx, root, "rev-parse", "--verify", s.tag+"^{commit}")
		if err != nil {
			return err
		}
		if at != s.commit {
			return fmt.Errorf("tag %s is at commit %s, but this builds %s; check out the tag, or choose another version", s.tag, at, s.commit)
		}
		s.tagged = true
	}
	if _, err = runGit(ctx, root, "clone", "--quiet", "--shared", "--no-checkout", root, s.dir); err != nil {
		return err
	}
	if _, err = runGit(ctx, s.dir, "checkout", "--quiet", "--detach", s.commit); err != nil {
		return err
	}
	// The go command could equally take its version from another tag at the commit.
	others, err := runGit(ctx, s.dir, "tag", "--list")
	if err != nil {
		return err
	}
	if others != "" {
		if _, err = runGit(ctx, s.dir, append([]string{"tag", "--delete"}, strings.Fields(others)...)...); err != nil {
			return err
		}
	}
	if _, err = runGit(ctx, s.dir, "tag", s.tag); err != nil {
		return err
	}
	seconds, err := runGit(ctx, s.dir, "show", "--no-patch", "--format=%ct", s.commit)
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	s.time = time.Unix(unix, 0).UTC()
	return err
}

// readFile returns a file of the source.
func (s *sourceTree) readFile(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
}

// runGit runs git and returns its output.
func runGit(ctx context.Context, dir string, args ...string) (string, error) {
	return runCommand(ctx, dir, nil, "git", args...)
}

// runCommand runs a program with additional variables and returns its output, without the last line
// end.
func runCommand(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	var stderr strings.Builder
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = dir, &stderr
	c.Env = append(os.Environ(), env...)
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
