package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// maxProgramBytes bounds the program for linux/amd64. Raising it is a deliberate decision. The section
// "Size" of docs/architecture.md lists what the program consists of, and what keeps it small.
const maxProgramBytes = 21_340_000

// buildArgs are the arguments of go build for a program. The tag leaves out HTTP/2, 0.5 MB: our own
// servers do not speak it, and servers of MCP are also reached by HTTP/1.1.
var buildArgs = []string{"build", "-trimpath", "-buildvcs=true", "-tags=nethttpomithttp2", "-ldflags=-s -w -buildid="}

// A buildTarget is a system for which the program is built, with its names in Go and in package
// formats.
type buildTarget struct {
	os, arch string
	wheel    string // the platform tags of a wheel, as PyPI requires them
	nodeOS   string // process.platform
	nodeCPU  string // process.arch
	deb, rpm string // the architecture; "" except on Linux
}

func (t buildTarget) String() string { return t.os + "/" + t.arch }

func (t buildTarget) programName() string {
	if t.os == "windows" {
		return "repl.exe"
	}
	return "repl"
}

// goEnv returns the variables with which the go command builds for the target.
func (t buildTarget) goEnv() []string {
	return []string{"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0"}
}

// buildTargets lists all released targets. The program is static, so one wheel fits glibc and musl.
// macOS 12 is the oldest version that Go 1.26 supports (https://go.dev/doc/go1.25#darwin).
var buildTargets = []buildTarget{
	{"linux", "amd64", "manylinux2014_x86_64.manylinux_2_17_x86_64.musllinux_1_1_x86_64", "linux", "x64", "amd64", "x86_64"},
	{"linux", "arm64", "manylinux2014_aarch64.manylinux_2_17_aarch64.musllinux_1_1_aarch64", "linux", "arm64", "arm64", "aarch64"},
	{"darwin", "amd64", "macosx_12_0_x86_64", "darwin", "x64", "", ""},
	{"darwin", "arm64", "macosx_12_0_arm64", "darwin", "arm64", "", ""},
	{"windows", "amd64", "win_amd64", "win32", "x64", "", ""},
	{"windows", "arm64", "win_arm64", "win32", "arm64", "", ""},
}

// A release collects the files of one version.
type release struct {
	version  string // without v
	source   *sourceTree
	out      string
	programs []builtProgram
	extras   []extraFile   // files packed along with the program
	files    []releaseFile // built so far

	thirdParties []thirdParty // whose code is in the programs
}

// A builtProgram is the executable of repl for one target.
type builtProgram struct {
	buildTarget
	path  string
	bytes []byte
}

// compilePrograms builds the program for each target, and collects the extra files.
func (r *release) compilePrograms(ctx context.Context, chosen []buildTarget) error {
	for _, t := range chosen {
		p := builtProgram{buildTarget: t, path: filepath.Join(r.source.dir, ".git", "built-"+t.os+"-"+t.arch, t.programName())}
		if _, err := runCommand(ctx, r.source.dir, t.goEnv(), "go", append(slices.Clip(buildArgs), "-o", p.path, "./cmd/repl")...); err != nil {
			return err
		}
		var err error
		if p.bytes, err = os.ReadFile(p.path); err != nil {
			return err
		}
		if t.String() == "linux/amd64" && len(p.bytes) > maxProgramBytes {
			return fmt.Errorf("the program for %s has %d bytes, over its limit of %d; find out what has grown, or raise maxProgramBytes", t, len(p.bytes), maxProgramBytes)
		}
		r.programs = append(r.programs, p)
	}
	if err := r.collectExtras(ctx); err != nil {
		return err
	}
	return r.collectNotices(ctx)
}
