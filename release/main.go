// Command release builds all published files of a version of repl, from one commit:
//
//	go run -C release . --version v1.2.3 --out dist
//
// With --prepare v1.2.3 it edits the pages for that version instead, before the commit that gets the tag.
// docs/releasing.md has all steps of a release.
//
// It publishes nothing. The same commit and the same Go version produce the same bytes, in any
// directory: every time stamp is the time of the commit, and every list is sorted.
//
// # A separate module
//
// The program is a separate module, so its dependencies never reach a user of the library.
// Libraries write the Debian and RPM packages (nfpm) and the bill of materials (cyclonedx-go).
// Wheels, npm packages and archives are zip and tar, which the standard library writes. Tests build
// a release candidate, and install it by pip, uv, npm, dpkg, rpm and tar. Only the client for
// TypeScript needs more than Go: npm and Node.js compile it.
//
// GoReleaser was rejected. It builds wheels and npm packages only in its paid edition, if at all,
// and only a release can test its configuration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := runRelease(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func runRelease(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	version := f.String("version", "", "`VERSION` of the tag: v1.2.3 or v1.2.3-rc.1")
	commit := f.String("commit", "HEAD", "`COMMIT` to build; uncommitted changes are left out")
	out := f.String("out", "dist", "`DIR` to create; it must not exist yet")
	prepare := f.String("prepare", "", "edit the pages of this tree for the `VERSION`, and build nothing")
	only := f.String("only", "", "`SYSTEM/ARCH,…` to build only these targets, for a test")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if *prepare != "" {
		return prepareRelease(ctx, *prepare)
	}
	if !versionPattern.MatchString(*version) {
		return fmt.Errorf("--version %q: use v1.2.3 or v1.2.3-rc.1, the two forms that every package index can express", *version)
	}
	if err := checkVersion(*version); err != nil {
		return err
	}
	chosen, err := parseTargets(*only)
	if err != nil {
		return err
	}
	if err := os.Mkdir(*out, 0o755); err != nil {
		return fmt.Errorf("--out: %w; name a directory that can be created", err)
	}
	return buildRelease(ctx, *version, *commit, *out, chosen)
}

// prepareRelease prepares the tree of this module, and prints the changed files.
func prepareRelease(ctx context.Context, version string) error {
	if !versionPattern.MatchString(version) || isCandidate(version) {
		return fmt.Errorf("--prepare %q: use v1.2.3; a release candidate is tagged on a tree that is not prepared", version)
	}
	root, err := runGit(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	changed, err := prepareTree(ctx, root, version, time.Now().UTC())
	for _, name := range changed {
		fmt.Println(name)
	}
	return err
}

// isCandidate reports whether a version is that of a release candidate.
func isCandidate(version string) bool { return strings.Contains(version, "-rc.") }

var versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-rc\.[1-9]\d*)?$`)

// parseTargets returns the targets in a list, or all.
func parseTargets(list string) ([]buildTarget, error) {
	if list == "" {
		return buildTargets, nil
	}
	var chosen []buildTarget
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(buildTargets, func(t buildTarget) bool { return t.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("--only: unknown target %q; choose from %v", name, buildTargets)
		}
		chosen = append(chosen, buildTargets[i])
	}
	return chosen, nil
}

// buildRelease builds all files of a version in the directory out.
func buildRelease(ctx context.Context, version, commit, out string, chosen []buildTarget) error {
	source, err := checkOut(ctx, version, commit)
	if err != nil {
		return err
	}
	defer os.RemoveAll(source.dir)
	if source.tagged && !isCandidate(version) {
		if err := source.checkPrepared(ctx); err != nil {
			return err
		}
	}
	r := &release{version: strings.TrimPrefix(version, "v"), source: source, out: out}
	if err := r.compilePrograms(ctx, chosen); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		make func() error
	}{
		{"archives", r.writeArchives},
		{"Debian and RPM packages", r.writeSystemPackages},
		{"Python wheels", r.writeWheels},
		{"wheel of the Python client", r.writeClientWheel},
		{"npm packages", r.writeNPMPackages},
		{"npm package of the TypeScript client", func() error { return r.writeClientPackage(ctx) }},
		{"bundle for desktop clients", r.writeBundle},
		{"archive of the source", func() error { return r.writeSource(ctx) }},
		{"bill of materials", r.writeBOM},
		{"manifests of package managers", r.writeManifests},
		{"provenance", r.writeProvenance},
		{"checksums", r.writeChecksums},
	} {
		if err := step.make(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	for _, f := range r.files {
		fmt.Println(f.name)
	}
	return nil
}
