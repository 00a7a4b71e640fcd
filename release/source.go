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

// A source is a clone of the repository at the commit of a release, with its tag. The go command
// takes the version of the program from the tag.
type source struct {
	dir    string
	commit string // in full
	tag    string
	time   time.Time // of the commit, to the second
}

// checkOut clones the repository in which this module lies.
func checkOut(ctx context.Context, tag, commit string) (*source, error) {
	root, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "turnstone-release-*")
	if err != nil {
		return nil, err
	}
	s := &source{dir: dir, tag: tag}
	if err := s.fill(ctx, root, commit); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *source) fill(ctx context.Context, root, commit string) (err error) {
	if s.commit, err = git(ctx, root, "rev-parse", "--verify", commit+"^{commit}"); err != nil {
		return err
	}
	tagged, err := git(ctx, root, "tag", "--list", s.tag)
	if err != nil {
		return err
	}
	if tagged != "" {
		at, err := git(ctx, root, "rev-parse", "--verify", s.tag+"^{commit}")
		if err != nil {
			return err
		}
		if at != s.commit {
			return fmt.Errorf("the tag %s is at commit %s, and this builds %s: check out the tag, or choose another version", s.tag, at, s.commit)
		}
	}
	if _, err = git(ctx, root, "clone", "--quiet", "--shared", "--no-checkout", root, s.dir); err != nil {
		return err
	}
	if _, err = git(ctx, s.dir, "checkout", "--quiet", "--detach", s.commit); err != nil {
		return err
	}
	// Another tag at the commit would be as good a version to the go command.
	others, err := git(ctx, s.dir, "tag", "--list")
	if err != nil {
		return err
	}
	if others != "" {
		if _, err = git(ctx, s.dir, append([]string{"tag", "--delete"}, strings.Fields(others)...)...); err != nil {
			return err
		}
	}
	if _, err = git(ctx, s.dir, "tag", s.tag); err != nil {
		return err
	}
	seconds, err := git(ctx, s.dir, "show", "--no-patch", "--format=%ct", s.commit)
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	s.time = time.Unix(unix, 0).UTC()
	return err
}

// read returns a file of the source.
func (s *source) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
}

// git runs a command of git and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	return command(ctx, dir, nil, "git", args...)
}

// command runs a program with some variables more and returns what it prints, without the last
// end of line.
func command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	var said strings.Builder
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = dir, &said
	c.Env = append(os.Environ(), env...)
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
