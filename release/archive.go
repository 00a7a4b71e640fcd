package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// An archiveEntry is a file to pack into an archive.
type archiveEntry struct {
	name       string // with slashes
	data       []byte
	executable bool
}

func (e archiveEntry) fileMode() int64 {
	if e.executable {
		return 0o755
	}
	return 0o644
}

// A releaseFile records a file of the release directory.
type releaseFile struct {
	name   string
	sha256 string
}

// An extraFile is a file that is packed along with the program.
type extraFile struct {
	name        string // in an archive
	installPath string // where a Linux package installs it
	data        []byte
}

// collectExtras reads the texts of the source, and lets the program print its manual page and shell
// completions.
func (r *release) collectExtras(ctx context.Context) error {
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := r.source.readFile(name)
		if name == "README.md" {
			data, err = r.source.readReadme("")
		}
		if err != nil {
			return err
		}
		r.extras = append(r.extras, extraFile{name, docDir + name, data})
	}
	// A program built for this machine prints them, because the targets may be other machines.
	printer := filepath.Join(r.source.dir, ".git", "printer")
	if _, err := runCommand(ctx, r.source.dir, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-buildvcs=true", "-o", printer, "./cmd/repl"); err != nil {
		return err
	}
	for _, printed := range []struct {
		name, root string
		args       []string
	}{
		{"repl.1", "/usr/share/man/man1/repl.1", []string{"help", "--man"}},
		{"completion/repl.bash", "/usr/share/bash-completion/completions/repl", []string{"completion", "bash"}},
		{"completion/_repl", "/usr/share/zsh/vendor-completions/_repl", []string{"completion", "zsh"}},
		{"completion/repl.fish", "/usr/share/fish/vendor_completions.d/repl.fish", []string{"completion", "fish"}},
		{"completion/repl.ps1", "", []string{"completion", "powershell"}},
	} {
		text, err := runCommand(ctx, r.source.dir, nil, printer, printed.args...)
		if err != nil {
			return err
		}
		r.extras = append(r.extras, extraFile{printed.name, printed.root, []byte(text + "\n")})
	}
	return nil
}

// writeArchives builds one archive for each target: a zip for Windows, otherwise a tar.gz.
func (r *release) writeArchives() error {
	for _, p := range r.programs {
		base := fmt.Sprintf("%s_%s_%s_%s", packageName, r.version, p.os, p.arch)
		list := []archiveEntry{{base + "/" + p.programName(), p.bytes, true}}
		for _, e := range r.extras {
			list = append(list, archiveEntry{base + "/" + e.name, e.data, false})
		}
		var data []byte
		var err error
		if p.os == "windows" {
			base += ".zip"
			data, err = packZip(list, r.source.time)
		} else {
			base += ".tar.gz"
			data, err = packTar(list, r.source.time)
		}
		if err != nil {
			return err
		}
		if err := r.writeFile(base, data); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) sourceName() string { return packageName + "_" + r.version + "_source.tar.gz" }

// writeSource archives the files of the commit. conda-forge builds from a file whose digest stays the same,
// which the forge does not promise of the archives that it makes of a tag.
func (r *release) writeSource(ctx context.Context) error {
	base := packageName + "_" + r.version
	names, err := runGit(ctx, r.source.dir, "ls-tree", "-r", "-z", "--name-only", "HEAD")
	if err != nil {
		return err
	}
	var list []archiveEntry
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(r.source.dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file, which packTar cannot write", name)
		}
		data, err := r.source.readFile(name)
		if err != nil {
			return err
		}
		list = append(list, archiveEntry{base + "/" + name, data, info.Mode()&0o100 != 0})
	}
	data, err := packTar(list, r.source.time)
	if err != nil {
		return err
	}
	return r.writeFile(r.sourceName(), data)
}

// attachable matches the names that GitHub does not change when it attaches a file.
var attachable = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// writeFile writes and records a file of the release. All files are in one directory, as on the page
// of a release, so that SHA256SUMS holds for downloaded files.
func (r *release) writeFile(name string, data []byte) error {
	if _, exists := r.findFile(name); exists || !attachable.MatchString(name) {
		return fmt.Errorf("%s cannot be a file of a release: the name is taken, or has a character that GitHub replaces", name)
	}
	path := filepath.Join(r.out, name)
	sum := sha256.Sum256(data)
	r.files = append(r.files, releaseFile{name, hex.EncodeToString(sum[:])})
	return os.WriteFile(path, data, 0o644)
}

// findFile returns the file with the given name.
func (r *release) findFile(name string) (releaseFile, bool) {
	for _, f := range r.files {
		if f.name == name {
			return f, true
		}
	}
	return releaseFile{}, false
}

// writeChecksums writes SHA256SUMS, for sha256sum --check.
func (r *release) writeChecksums() error {
	var b strings.Builder
	for _, f := range r.files {
		fmt.Fprintf(&b, "%s  %s\n", f.sha256, f.name)
	}
	return r.writeFile("SHA256SUMS", []byte(b.String()))
}

// packTar packs entries, owned by root, into a tar.gz.
func packTar(list []archiveEntry, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, e := range list {
		h := &tar.Header{Name: e.name, Mode: e.fileMode(), Size: int64(len(e.data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// packZip packs entries into a zip with the modes of Unix, which wheels need for the program.
func packZip(list []archiveEntry, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range list {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(os.FileMode(e.fileMode()))
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
