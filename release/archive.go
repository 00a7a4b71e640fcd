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
	"strings"
	"time"
)

// An entry is one file in an archive.
type entry struct {
	name       string // with slashes
	data       []byte
	executable bool
}

func (e entry) mode() int64 {
	if e.executable {
		return 0o755
	}
	return 0o644
}

// A file is one that was made, in the directory of the release.
type file struct {
	name   string
	sha256 string
}

// An extra is a file beside the program.
type extra struct {
	name string // in an archive
	root string // where a package of a Linux system puts it
	data []byte
}

// collectExtras reads the texts of the source, and has the program print its manual page and the
// completion of shells.
func (r *release) collectExtras(ctx context.Context) error {
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := r.source.read(name)
		if err != nil {
			return err
		}
		r.extras = append(r.extras, extra{name, "/usr/share/doc/" + packageName + "/" + name, data})
	}
	// The program for this machine prints them: what is built may be for another one.
	printer := filepath.Join(r.source.dir, ".git", "printer")
	if _, err := command(ctx, r.source.dir, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-buildvcs=true", "-o", printer, "./cmd/repl"); err != nil {
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
		text, err := command(ctx, r.source.dir, nil, printer, printed.args...)
		if err != nil {
			return err
		}
		r.extras = append(r.extras, extra{printed.name, printed.root, []byte(text + "\n")})
	}
	return nil
}

// archives makes one archive for each target: a zip for Windows, else a tar.gz.
func (r *release) archives() error {
	for _, p := range r.programs {
		base := fmt.Sprintf("%s_%s_%s_%s", packageName, r.version, p.os, p.arch)
		list := []entry{{base + "/" + p.exe(), p.bytes, true}}
		for _, e := range r.extras {
			list = append(list, entry{base + "/" + e.name, e.data, false})
		}
		var data []byte
		var err error
		if p.os == "windows" {
			base += ".zip"
			data, err = zipped(list, r.source.time)
		} else {
			base += ".tar.gz"
			data, err = tarred(list, r.source.time)
		}
		if err != nil {
			return err
		}
		if err := r.write(base, data); err != nil {
			return err
		}
	}
	return nil
}

// write keeps a file of the release.
func (r *release) write(name string, data []byte) error {
	path := filepath.Join(r.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	r.files = append(r.files, file{name, hex.EncodeToString(sum[:])})
	return os.WriteFile(path, data, 0o644)
}

// find returns the file of that name.
func (r *release) find(name string) (file, bool) {
	for _, f := range r.files {
		if f.name == name {
			return f, true
		}
	}
	return file{}, false
}

// checksums writes SHA256SUMS, for sha256sum --check.
func (r *release) checksums() error {
	var b strings.Builder
	for _, f := range r.files {
		fmt.Fprintf(&b, "%s  %s\n", f.sha256, f.name)
	}
	return r.write("SHA256SUMS", []byte(b.String()))
}

// tarred packs entries, owned by root, into a tar.gz.
func tarred(list []entry, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, e := range list {
		h := &tar.Header{Name: e.name, Mode: e.mode(), Size: int64(len(e.data)), ModTime: at, Format: tar.FormatUSTAR}
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

// zipped packs entries into a zip with the modes of Unix, which wheels need for the program.
func zipped(list []entry, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range list {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(os.FileMode(e.mode()))
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
