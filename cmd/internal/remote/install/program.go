package install

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// maxProgram bounds the program that is sent, in bytes.
const maxProgram = 128 << 20

// ProgramFinder finds the program for the system of a remote end. It is this program, or a file next to
// it or in the cache: repl-linux-arm64, or the archive of the release with its SHA256SUMS.
type ProgramFinder struct {
	Self string   // the path of this program
	Dirs []string // directories with programs for other systems, in order

	// Build is the build information of this program: GOOS, GOARCH, CGO_ENABLED and version. nil
	// means as recorded by the go command.
	Build map[string]string
}

// A ProgramFile is the executable of repl for one system, ready to be sent.
type ProgramFile struct {
	// Linked says that it needs the C library of the machine where it was built.
	Linked bool

	path string
	data []byte
	sum  [sha256.Size]byte
}

// FindProgram returns the program for a system, such as "linux/arm64". If it is missing, the error
// names the required file.
func (p ProgramFinder) FindProgram(system string) (*ProgramFile, error) {
	found, err := p.loadProgram(system)
	if err == nil {
		err = found.checkSystem(system)
	}
	return found, err
}

func (p ProgramFinder) loadProgram(system string) (*ProgramFile, error) {
	b := p.buildSettings()
	own := b["GOOS"]+"/"+b["GOARCH"] == system
	linked := b["CGO_ENABLED"] != "0" && b["GOOS"] == "linux"
	if own && !linked {
		return loadFile(p.Self, false)
	}
	for _, dir := range p.Dirs {
		found, err := loadFile(filepath.Join(dir, programFile(system)), false)
		if errors.Is(err, fs.ErrNotExist) {
			found, err = loadFromArchive(dir, p.archiveName(system))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
	}
	if own {
		return loadFile(p.Self, true)
	}
	return nil, fmt.Errorf("the remote end is %s, but this program is for %s/%s; %s", system, b["GOOS"], b["GOARCH"], p.missingHint(system))
}

// programFile is the name of the program for a system, as a separate file.
func programFile(system string) string { return "repl-" + strings.ReplaceAll(system, "/", "-") }

// archiveName returns the name of the release's archive for a system, or "" if this program is not
// a release.
func (p ProgramFinder) archiveName(system string) string {
	version := strings.TrimPrefix(p.buildSettings()["version"], "v")
	if version == "" || strings.ContainsAny(version, "()+/") {
		return ""
	}
	return "turnstone-repl_" + version + "_" + strings.ReplaceAll(system, "/", "_") + ".tar.gz"
}

// missingHint says which file would help, and where to put it.
func (p ProgramFinder) missingHint(system string) string {
	dir := "next to it"
	if len(p.Dirs) > 0 {
		dir = "in " + p.Dirs[len(p.Dirs)-1]
	}
	if name := p.archiveName(system); name != "" {
		return fmt.Sprintf("put %s and SHA256SUMS of the release %s", name, dir)
	}
	os, arch, _ := strings.Cut(system, "/")
	return fmt.Sprintf("put a program for it %s, built by CGO_ENABLED=0 GOOS=%s GOARCH=%s go build -o %s ./cmd/repl", dir, os, arch, programFile(system))
}

// buildSettings returns the build information of this program.
func (p ProgramFinder) buildSettings() map[string]string {
	if p.Build != nil {
		return p.Build
	}
	b := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		b["version"] = info.Main.Version
		for _, s := range info.Settings {
			b[s.Key] = s.Value
		}
	}
	return b
}

func loadFile(path string, linked bool) (*ProgramFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readProgram(f, path, linked)
}

func readProgram(from io.Reader, path string, linked bool) (*ProgramFile, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxProgram+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	if len(data) == 0 || len(data) > maxProgram {
		return nil, fmt.Errorf("%s has %d bytes; a program must have 1 to %d", path, len(data), maxProgram)
	}
	return &ProgramFile{Linked: linked, path: path, data: data, sum: sha256.Sum256(data)}, nil
}

// elfMachines holds the header bytes of programs: the magic number, and the machine at an offset.
var elfMachines = map[string]struct {
	magic   string
	at      int
	machine string
}{
	"linux/amd64":  {"\x7fELF\x02\x01", 18, "\x3e\x00"},
	"linux/arm64":  {"\x7fELF\x02\x01", 18, "\xb7\x00"},
	"darwin/amd64": {"\xcf\xfa\xed\xfe", 4, "\x07\x00\x00\x01"},
	"darwin/arm64": {"\xcf\xfa\xed\xfe", 4, "\x0c\x00\x00\x01"},
}

// checkSystem rejects files that are not a program for the system. A shell would try to read them
// as a script.
func (p *ProgramFile) checkSystem(system string) error {
	m := elfMachines[system]
	if bytes.HasPrefix(p.data, []byte(m.magic)) && len(p.data) > m.at && bytes.HasPrefix(p.data[m.at:], []byte(m.machine)) {
		return nil
	}
	return fmt.Errorf("%s is not a program for %s", p.path, system)
}

// loadFromArchive extracts the program from the archive of a release, after comparing its hash with
// SHA256SUMS in the same directory.
func loadFromArchive(dir, name string) (*ProgramFile, error) {
	if name == "" {
		return nil, fs.ErrNotExist
	}
	path := filepath.Join(dir, name)
	packed, err := loadFile(path, false)
	if err != nil {
		return nil, err
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be checked; put SHA256SUMS of the same release next to it", path)
	}
	if want := findChecksum(sums, name); want != hex.EncodeToString(packed.sum[:]) {
		return nil, fmt.Errorf("%s is damaged or of another release: SHA256SUMS has the hash %q, but its hash is %x", path, want, packed.sum)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed.data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("%s does not contain repl: %w", path, errors.Join(err))
		}
		if filepath.Base(h.Name) == "repl" {
			return readProgram(files, path, false)
		}
	}
}

// findChecksum returns the hash of a file in a list of sha256sum, or "".
func findChecksum(list []byte, name string) string {
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 2 && strings.TrimPrefix(fields[1], "*") == name {
			return fields[0]
		}
	}
	return ""
}
