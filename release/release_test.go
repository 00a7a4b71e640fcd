package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	testVersion = "v0.2.0-rc.1"
	testNumber  = "0.2.0-rc.1"
)

// builtDir is the directory in which buildOnce builds, or "".
var builtDir string

// buildOnce builds a release of the current commit once, for two Linux systems.
var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "turnstone-dist-*")
	if err != nil {
		return "", err
	}
	builtDir = dir
	out := filepath.Join(dir, "dist")
	return out, runRelease(context.Background(), []string{"--version", testVersion, "--out", out, "--only", hostTarget() + ",linux/arm64"})
})

func hostTarget() string { return "linux/" + runtime.GOARCH }

func TestMain(m *testing.M) {
	status := m.Run()
	if builtDir != "" {
		os.RemoveAll(builtDir)
	}
	os.Exit(status)
}

// releaseDir returns the directory of the release.
func releaseDir(t *testing.T) string {
	t.Helper()
	if runtime.GOARCH != "amd64" || !pathExists("/proc") {
		t.Skip("releases are built and tested on linux/amd64")
	}
	findTool(t, "npm") // compiles a client
	out, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// findOne returns the only file that matches.
func findOne(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(releaseDir(t), pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

func TestRun(t *testing.T) {
	t.Run("rejects a version that some index cannot express", func(t *testing.T) {
		for _, version := range []string{"", "1.2.3", "v1.2", "v01.2.3", "v1.2.3-beta", "v1.2.3+x", "v1.2.3-rc.0", "v1.2.3\n"} {
			if err := runRelease(t.Context(), []string{"--version", version, "--out", filepath.Join(t.TempDir(), "d")}); err == nil || !strings.Contains(err.Error(), "--version") {
				t.Errorf("%q: %v", version, err)
			}
		}
	})

	t.Run("rejects an output directory that exists", func(t *testing.T) {
		if err := runRelease(t.Context(), []string{"--version", testVersion, "--out", t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--out") {
			t.Errorf("%v", err)
		}
	})

	t.Run("rejects an unknown target", func(t *testing.T) {
		if err := runRelease(t.Context(), []string{"--version", testVersion, "--only", "plan9/386"}); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
			t.Errorf("%v", err)
		}
	})
}

func TestRelease(t *testing.T) {
	t.Run("has the checksum of every file", func(t *testing.T) {
		out := releaseDir(t)
		output, err := exec.Command("sh", "-c", "cd '"+out+"' && sha256sum --check --strict SHA256SUMS").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		files, err := os.ReadDir(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if name := f.Name(); name != "SHA256SUMS" && !strings.Contains(string(output), name+": OK\n") {
				t.Errorf("%s has no checksum", name)
			}
		}
	})

	// TestRelease builds again in another directory.
	t.Run("is reproducible from the same commit", func(t *testing.T) {
		first := releaseDir(t)
		second := filepath.Join(t.TempDir(), "again")
		if err := runRelease(t.Context(), []string{"--version", testVersion, "--out", second, "--only", hostTarget() + ",linux/arm64"}); err != nil {
			t.Fatal(err)
		}
		sums := func(dir string) string {
			b, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		if a, b := sums(first), sums(second); a != b {
			t.Errorf("first:\n%ssecond:\n%s", a, b)
		}
	})

	t.Run("has archives owned by root with all files", func(t *testing.T) {
		b, err := os.ReadFile(findOne(t, "turnstone-repl_*_linux_amd64.tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for r := tar.NewReader(z); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, h.Name[strings.Index(h.Name, "/")+1:])
			if h.Uid != 0 || h.Gid != 0 || h.Size == 0 || (h.Mode == 0o755) != strings.HasSuffix(h.Name, "/repl") {
				t.Errorf("%s: owner %d:%d, mode %o, %d bytes", h.Name, h.Uid, h.Gid, h.Mode, h.Size)
			}
		}
		want := []string{"repl", "LICENSE", "README.md", "CHANGELOG.md", "repl.1", "completion/repl.bash", "completion/_repl", "completion/repl.fish", "completion/repl.ps1", noticesName}
		if !slices.Equal(names, want) {
			t.Errorf("got %q", names)
		}
	})

	t.Run("lists the modules in the bill of materials", func(t *testing.T) {
		b, err := os.ReadFile(findOne(t, "*.cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, module := range []string{"pkg:golang/std@v1.", "pkg:golang/github.com/creack/pty@", "pkg:golang/golang.org/x/sys@", "pkg:golang/github.com/turnstone-repl/turnstone@" + testVersion} {
			if !bytes.Contains(b, []byte(module)) {
				t.Errorf("%s is missing", module)
			}
		}
	})

	t.Run("names commit and files in the provenance", func(t *testing.T) {
		b, err := os.ReadFile(findOne(t, "*.intoto.json"))
		if err != nil {
			t.Fatal(err)
		}
		head, err := runGit(t.Context(), ".", "rev-parse", "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		var statement struct {
			Subject []struct{ Name string }
		}
		if err := json.Unmarshal(b, &statement); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b, []byte(head)) || len(statement.Subject) < 10 {
			t.Errorf("%s", b)
		}
	})

	t.Run("lists every file in the record of a wheel", func(t *testing.T) {
		z, err := zip.OpenReader(findOne(t, "*x86_64*.whl"))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		var record []byte
		for _, f := range z.File {
			if strings.HasSuffix(f.Name, "/RECORD") {
				r, err := f.Open()
				if err != nil {
					t.Fatal(err)
				}
				if record, err = io.ReadAll(r); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, f := range z.File {
			if !bytes.Contains(record, []byte(f.Name+",")) {
				t.Errorf("%s is not in RECORD", f.Name)
			}
		}
	})
}

func TestManifests(t *testing.T) {
	// TestManifests fills each manifest with made-up archives of all targets.
	t.Run("name archives that are built", func(t *testing.T) {
		r := newFakeRelease(t, testNumber)
		if err := r.writeFile(r.sourceName(), []byte("source")); err != nil {
			t.Fatal(err)
		}
		for _, write := range []func() error{r.writeArchives, r.writeBundle} {
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		archives := len(r.files)
		if err := r.writeManifests(); err != nil {
			t.Fatal(err)
		}
		if len(r.files) != archives+9 {
			t.Errorf("%+v", r.files[archives:])
		}
		address := regexp.MustCompile(`https://\S+/releases/download/\S+?/([^/"\s]+)`)
		for _, f := range r.files[archives:] {
			text, err := os.ReadFile(filepath.Join(r.out, f.name))
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range address.FindAllSubmatch(text, -1) {
				named, ok := r.findFile(string(found[1]))
				if !ok || !strings.Contains(strings.ToLower(string(text)), named.sha256) {
					t.Errorf("%s names %s, which does not exist or has another checksum", f.name, found[1])
				}
			}
			if strings.HasSuffix(f.name, ".json") && !json.Valid(text) {
				t.Errorf("%s is not JSON:\n%s", f.name, text)
			}
			if !bytes.Contains(text, []byte(testNumber)) || bytes.Contains(text, []byte("<no value>")) {
				t.Errorf("%s:\n%s", f.name, text)
			}
		}
	})

	t.Run("are left out when their archives are missing", func(t *testing.T) {
		if found, err := filepath.Glob(filepath.Join(releaseDir(t), wingetID+"*")); err != nil || len(found) > 0 {
			t.Errorf("%q, %v", found, err)
		}
		findOne(t, "Containerfile") // its two archives exist
	})
}
