package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// writeSystemPackages builds a Debian and an RPM package for each Linux architecture. They depend
// on no other package, because the program is static and runs without Python or R.
func (r *release) writeSystemPackages() error {
	for _, p := range r.programs {
		if p.deb == "" {
			continue
		}
		for _, kind := range []struct {
			nfpm.Packager
			arch string
		}{{deb.Default, p.deb}, {rpm.DefaultRPM, p.rpm}} {
			if err := r.writeSystemPackage(p, kind.Packager, kind.arch); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) writeSystemPackage(p builtProgram, kind nfpm.Packager, arch string) error {
	dir, err := os.MkdirTemp("", "turnstone-package-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	info := nfpm.WithDefaults(&nfpm.Info{ // which splits the version, so that 1.2.3~rc.1 sorts before 1.2.3
		Name: packageName, Arch: arch, Platform: "linux", Version: r.version, Release: "1",
		Section: "interpreters", Priority: "optional",
		Maintainer: maintainer, Vendor: "Turnstone", Description: summary + ".",
		Homepage: homepage, License: license, MTime: r.source.time,
		Overridables: nfpm.Overridables{
			Suggests: []string{"python3", "r-base-core"},
			RPM:      nfpm.RPM{BuildHost: "localhost", Summary: summary, Packager: maintainer},
		},
	})
	add := func(data []byte, to string, mode os.FileMode) error {
		from := filepath.Join(dir, strings.ReplaceAll(to, "/", "_")) // two files may have the same base name
		info.Contents = append(info.Contents, &files.Content{
			Source: from, Destination: to,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.source.time},
		})
		return os.WriteFile(from, data, 0o600)
	}
	if err := add(p.bytes, "/usr/bin/repl", 0o755); err != nil {
		return err
	}
	for _, e := range r.extras {
		if e.installPath != "" {
			if err := add(e.data, e.installPath, 0o644); err != nil {
				return err
			}
		}
	}
	format := "rpm"
	if kind == nfpm.Packager(deb.Default) {
		format = "deb"
		if err := add(debianCopyright(), docDir+"copyright", 0o644); err != nil {
			return err
		}
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := kind.Package(info, &b); err != nil {
		return err
	}
	// GitHub replaces ~ in the name of a file. In the version in the package, ~ sorts a candidate first.
	return r.writeFile(strings.ReplaceAll(kind.ConventionalFileName(info), "~", "-"), b.Bytes())
}
