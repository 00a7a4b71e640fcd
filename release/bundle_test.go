package main

import (
	"bytes"
	"debug/macho"
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeProgram returns bytes that stand for the program of a target: for macOS the header of one.
func fakeProgram(t *testing.T, target buildTarget) []byte {
	t.Helper()
	if target.os != "darwin" {
		return []byte(target.String())
	}
	header := macho.FileHeader{Magic: macho.Magic64, Cpu: macho.CpuAmd64, SubCpu: 3, Type: macho.TypeExec}
	if target.arch == "arm64" {
		header.Cpu, header.SubCpu = macho.CpuArm64, 0
	}
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	b.Write(make([]byte, 4)) // reserved
	return b.Bytes()
}

// newFakeRelease returns a release with fake programs for all targets.
func newFakeRelease(t *testing.T, version string) *release {
	t.Helper()
	r := &release{version: version, source: &sourceTree{tag: "v" + version, commit: "0123456789abcdef0123456789abcdef01234567", time: time.Unix(1e9, 0)}, out: t.TempDir()}
	for _, target := range buildTargets {
		r.programs = append(r.programs, builtProgram{buildTarget: target, bytes: fakeProgram(t, target)})
	}
	return r
}

// buildForMac builds a small program of macOS.
func buildForMac(t *testing.T, arch string) []byte {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"go.mod": "module m\n", "m.go": "package main\n\nfunc main() { println(1) }\n"})
	c := exec.CommandContext(t.Context(), "go", "build", "-o", "m", ".")
	c.Dir = dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=darwin", "GOARCH="+arch, "GOWORK=off", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "m"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestUniversal(t *testing.T) {
	t.Run("has the programs of both processors unchanged", func(t *testing.T) {
		programs := [][]byte{buildForMac(t, "amd64"), buildForMac(t, "arm64")}
		data, err := joinUniversal(programs...)
		if err != nil {
			t.Fatal(err)
		}
		f, err := macho.NewFatFile(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		for i, cpu := range []macho.Cpu{macho.CpuAmd64, macho.CpuArm64} {
			arch := f.Arches[i]
			if arch.Cpu != cpu || arch.Offset%(1<<universalAlign) != 0 || !bytes.Equal(data[arch.Offset:arch.Offset+arch.Size], programs[i]) {
				t.Errorf("%+v", arch.FatArchHeader)
			}
		}
		if last := f.Arches[1]; len(data) != int(last.Offset+last.Size) || len(f.Arches) != 2 {
			t.Errorf("%d parts in %d bytes", len(f.Arches), len(data))
		}
	})

	t.Run("is refused for anything else, and for one processor twice", func(t *testing.T) {
		if _, err := joinUniversal([]byte("MZ")); err == nil {
			t.Error("a program of Windows is accepted")
		}
		one := fakeProgram(t, buildTarget{os: "darwin", arch: "arm64"})
		if _, err := joinUniversal(one, one); err == nil {
			t.Error("two programs for arm64 are accepted")
		}
	})
}

func TestBundle(t *testing.T) {
	r := newFakeRelease(t, nextVersion)
	r.extras = []extraFile{{"LICENSE", "", []byte("You may.")}, {noticesName, "", []byte("Thanks.")}, {"README.md", "", []byte("Hello.")}}
	if err := r.writeBundle(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.out, r.bundleName())
	content := unpackZip(t, path)

	t.Run("has the programs that its manifest starts", func(t *testing.T) {
		var manifest bundleManifest
		if err := json.Unmarshal([]byte(findPacked(t, content, "manifest.json")), &manifest); err != nil {
			t.Fatal(err)
		}
		for system, command := range map[string]string{
			"darwin": manifest.Server.Config.Command,
			"win32":  manifest.Server.Config.Overrides["win32"].Command,
		} {
			name := strings.TrimPrefix(command, "${__dirname}/")
			if !slices.ContainsFunc(content, func(e archiveEntry) bool { return e.name == name }) {
				t.Errorf("%s starts %s, which is not packed", system, name)
			}
		}
		if manifest.Name != packageName || manifest.Version != nextVersion || manifest.Description != summary || manifest.Server.Config.Args[0] != "mcp" {
			t.Errorf("%+v", manifest)
		}
		for _, name := range []string{"LICENSE", noticesName} {
			findPacked(t, content, name)
		}
	})

	t.Run("is left out without a program", func(t *testing.T) {
		r := newFakeRelease(t, nextVersion)
		r.programs = r.programs[:3]
		if err := r.writeBundle(); err != nil || len(r.files) > 0 {
			t.Errorf("%+v, %v", r.files, err)
		}
	})

	// The official command reads the bundle. It may not reach any host.
	t.Run("passes the validator of its format", func(t *testing.T) {
		clients := os.Getenv("TURNSTONE_TEST_CLIENTS")
		if clients == "" {
			t.Skip("mcpb is not installed: tests/clients/install installs it with the npm of scripts/setup-dev, and TURNSTONE_TEST_CLIENTS names its directory")
		}
		program := filepath.Join(clients, "node_modules", "@anthropic-ai", "mcpb", "dist", "cli", "cli.js")
		dir := filepath.Join(t.TempDir(), "unpacked")
		for _, words := range [][]string{{"unpack", path, dir}, {"validate", filepath.Join(dir, "manifest.json")}} {
			out := runInstalled(t, systemPath+":"+filepath.Dir(findTool(t, "node")), append([]string{findTool(t, "unshare"), "-rn", findTool(t, "node"), program}, words...)...)
			t.Logf("%s", out)
		}
		if info, err := os.Stat(filepath.Join(dir, "server", "repl")); err != nil || info.Mode()&0o100 == 0 {
			t.Errorf("%v, %v", info, err)
		}
	})
}
