package main

import (
	"archive/zip"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestClientWheel(t *testing.T) {
	t.Run("has the version of the release and pins the program", func(t *testing.T) {
		r := &release{version: "0.7.0-rc.2", source: &sourceTree{dir: "..", tag: "v0.7.0-rc.2", time: time.Unix(1e9, 0)}, out: t.TempDir()}
		if err := r.writeClientWheel(); err != nil {
			t.Fatal(err)
		}
		z, err := zip.OpenReader(filepath.Join(r.out, "turnstone_client-0.7.0rc2-py3-none-any.whl"))
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		for name, want := range map[string][]string{
			"turnstone_client/__init__.py":                         {"\n__version__ = \"0.7.0rc2\"\n"},
			"turnstone_client/py.typed":                            nil,
			"turnstone_client-0.7.0rc2.dist-info/RECORD":           {"turnstone_client/session.py,sha256="},
			"turnstone_client-0.7.0rc2.dist-info/METADATA":         {"\nVersion: 0.7.0rc2\n", "\nProvides-Extra: repl\nRequires-Dist: turnstone-repl==0.7.0rc2; extra == \"repl\"\n", "/blob/v0.7.0-rc.2/docs/daemon-protocol.md"},
			"turnstone_client-0.7.0rc2.dist-info/licenses/LICENSE": {"Apache License"},
		} {
			f, err := z.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range want {
				if !strings.Contains(string(data), part) {
					t.Errorf("%s lacks %q", name, part)
				}
			}
		}
	})

	t.Run("refuses extras that it cannot read", func(t *testing.T) {
		r := &release{version: "0.7.0", source: &sourceTree{}}
		for _, project := range []string{"", "[project.optional-dependencies]\nrepl = [\n  \"turnstone-repl\",\n]\n"} {
			if lines, err := r.clientExtras(project); err == nil {
				t.Errorf("%q: %q", project, lines)
			}
		}
	})
}
