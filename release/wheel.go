package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"
)

// The Python package starts the program, which pip has installed next to the interpreter. It
// exists for uvx, which needs a command named like the distribution.
//
//go:embed python/__init__.py
var pythonPackage []byte

//go:embed python/__main__.py
var pythonMain []byte

// writeWheels builds one wheel for each target, following
// https://packaging.python.org/en/latest/specifications/binary-distribution-format/.
func (r *release) writeWheels() error {
	for _, p := range r.programs {
		base := moduleName + "-" + r.pythonVersion()
		info := base + ".dist-info/"
		list := []archiveEntry{
			{moduleName + "/__init__.py", pythonPackage, false},
			{moduleName + "/__main__.py", pythonMain, false},
			{base + ".data/scripts/" + p.programName(), p.bytes, true},
			{info + "METADATA", []byte(r.wheelMetadata()), false},
			{info + "WHEEL", []byte(wheelTags(p.wheel)), false},
			{info + "entry_points.txt", []byte("[console_scripts]\n" + packageName + " = " + moduleName + ".__main__:main\n"), false},
		}
		for _, e := range r.extras {
			if e.name == "LICENSE" || e.name == noticesName {
				list = append(list, archiveEntry{info + "licenses/" + e.name, e.data, false})
			}
		}
		list = append(list, archiveEntry{info + "RECORD", []byte(wheelRecord(list, info+"RECORD")), false})
		data, err := packZip(list, r.source.time)
		if err != nil {
			return err
		}
		if err := r.writeFile(base+"-py3-none-"+p.wheel+".whl", data); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) wheelMetadata() string {
	return strings.Join([]string{
		"Metadata-Version: 2.4",
		"Name: " + packageName,
		"Version: " + r.pythonVersion(),
		"Summary: " + summary,
		"License-Expression: " + license,
		"License-File: LICENSE",
		"License-File: " + noticesName,
		"Project-URL: Homepage, " + homepage,
		"Requires-Python: >=3.8",
		"Description-Content-Type: text/markdown",
		"",
		string(r.findExtra("README.md")) + registryMark(),
	}, "\n")
}

// wheelTags returns the WHEEL file, with a line for each platform.
func wheelTags(platforms string) string {
	var b strings.Builder
	b.WriteString("Wheel-Version: 1.0\nGenerator: turnstone-release\nRoot-Is-Purelib: false\n")
	for platform := range strings.SplitSeq(platforms, ".") {
		fmt.Fprintf(&b, "Tag: py3-none-%s\n", platform)
	}
	return b.String()
}

// wheelRecord lists the files of a wheel with their digests, and itself without one.
func wheelRecord(list []archiveEntry, self string) string {
	var b strings.Builder
	for _, e := range list {
		sum := sha256.Sum256(e.data)
		fmt.Fprintf(&b, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(e.data))
	}
	b.WriteString(self + ",,\n")
	return b.String()
}
