package r

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/atomicfile"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/workers"
)

// This command builds the prebuilt binaries and the archive of their source. It needs the compilers
// that it names.
//
//go:generate ./build-shim

//go:embed prebuilt/source.tar.gz
var compressedSource []byte // the files of src/shim, which are three times as large

// prebuiltShim returns the shim that was built for this system.
func prebuiltShim() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(compressedShim))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// compileTimeout bounds one run of the compiler, which normally takes less than a second.
const compileTimeout = time.Minute

// maxCompilerErrorBytes bounds the part of a compiler's output that an error quotes.
const maxCompilerErrorBytes = 400

// compilerNames lists the commands to try, in this order.
var compilerNames = []string{"cc", "gcc", "clang"}

// compilerDirs lists the directories to search for a compiler. PATH is not used: a sandboxed session may
// be able to write to its directories, but the compiler runs outside of the sandbox.
var compilerDirs = []string{
	"/usr/bin", "/usr/local/bin", "/bin", "/opt/homebrew/bin", "/opt/local/bin", "/usr/pkg/bin", // systems, Homebrew, MacPorts, pkgsrc
	"/run/current-system/sw/bin", "/nix/var/nix/profiles/default/bin", "/run/current-system/profile/bin", // NixOS, Nix, Guix
}

// findCompiler returns the path of the first compiler found, or "".
func findCompiler() string {
	for _, name := range compilerNames {
		for _, dir := range compilerDirs {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path
			}
		}
	}
	return ""
}

// compilerEnv returns the environment of a compiler that runs in a separate directory. It replaces PATH,
// which leads to the assembler and linker, and drops variables that may name programs, libraries and
// headers.
func compilerEnv(dir string) []string {
	return []string{"PATH=" + strings.Join(compilerDirs, string(filepath.ListSeparator)), "HOME=" + dir, "TMPDIR=" + dir}
}

// newShimPreparation returns a preparation that compiles the shim with the machine's compiler, once. The
// result is cached in dir, which is like Options.CacheDir.
func newShimPreparation(dir string) workers.Preparation {
	return workers.Preparation{
		Key: "r shim\x00" + dir,
		Run: func(ctx context.Context, report func(workers.PreparationProgress)) (workers.PreparationResult, error) {
			shim, notice, err := loadShim(ctx, dir, func(message string) { report(workers.PreparationProgress{Message: message}) })
			if err != nil {
				return workers.PreparationResult{}, fmt.Errorf("r: %w", err)
			}
			return workers.PreparationResult{Files: map[string][]byte{shimName: shim}, Notice: notice}, nil
		},
	}
}

func loadShim(ctx context.Context, dir string, progress func(string)) (shim []byte, notice string, err error) {
	sources, err := shimSources()
	if err != nil {
		return nil, "", err
	}
	cache, err := openCache(dir)
	if err != nil {
		notice = fmt.Sprintf("cannot cache the worker's library for R; it is compiled each time: %v", err)
	}
	// The name depends on the source and flags, so other versions never find this file.
	kept := filepath.Join(cache, fmt.Sprintf("%s-%s.so", runtime.GOARCH, sourceDigest(sources, strings.Join(compilerFlags, " "))[:32]))
	if cache != "" {
		if shim, err := os.ReadFile(kept); err == nil {
			return shim, "", nil
		}
	}
	shim, err = compileShim(ctx, sources, progress)
	if err != nil {
		return nil, "", err
	}
	if cache != "" {
		if err := atomicfile.Write(kept, shim, 0o600); err != nil { // whole, because two may compile at once
			notice = fmt.Sprintf("compiled the worker's library for R, but cannot cache it: %v", err)
		}
	}
	return shim, notice, nil
}

// compileShim runs the compiler in a temporary directory.
func compileShim(ctx context.Context, sources map[string][]byte, progress func(string)) ([]byte, error) {
	command := findCompiler()
	if command == "" {
		return nil, fmt.Errorf("no C compiler (%s in %s); the worker's library for R must be compiled once on this system: %s",
			strings.Join(compilerNames, ", "), strings.Join(compilerDirs, ", "), howToInstallCompiler)
	}
	progress(fmt.Sprintf("compiling the worker's library for R with %s, once", command))
	dir, err := os.MkdirTemp("", "turnstone-r-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	args := slices.Concat(compilerFlags, []string{"-o", shimName})
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		if err := os.WriteFile(filepath.Join(dir, name), sources[name], 0o600); err != nil {
			return nil, err
		}
		if path.Ext(name) == ".c" {
			args = append(args, name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, compileTimeout)
	defer cancel()
	run := exec.CommandContext(ctx, command, args...)
	run.Dir, run.Env = dir, compilerEnv(dir)
	run.WaitDelay = time.Second // a child of the compiler may keep the pipe open
	said, err := run.CombinedOutput()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s did not finish compiling the worker's library for R: %w", command, ctx.Err())
	}
	if err != nil {
		why := firstCompilerError(said)
		if isMissingHeader(why) {
			why += "; " + howToInstallCompiler
		}
		return nil, fmt.Errorf("%s cannot compile the worker's library for R (%w): %s", command, err, why)
	}
	return os.ReadFile(filepath.Join(dir, shimName))
}

// firstCompilerError returns the most important part of a compiler's output: its first error,
// or else its beginning.
func firstCompilerError(said []byte) string {
	all := strings.TrimSpace(string(said))
	for line := range strings.Lines(all) {
		if strings.Contains(line, "error") {
			return text.ShortenBytes(strings.TrimSpace(line), maxCompilerErrorBytes)
		}
	}
	return text.ShortenBytes(all, maxCompilerErrorBytes)
}

// isMissingHeader reports whether a message of gcc, clang or a Mac without its developer tools means that
// something must be installed.
func isMissingHeader(complaint string) bool {
	for _, words := range []string{"No such file", "file not found", "xcrun", "xcode-select"} {
		if strings.Contains(complaint, words) {
			return true
		}
	}
	return false
}

// shimSources returns the source files of the shim, by name.
func shimSources() (map[string][]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(compressedSource))
	if err != nil {
		return nil, err
	}
	sources := map[string][]byte{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return sources, nil
		}
		if err != nil {
			return nil, err
		}
		if sources[h.Name], err = io.ReadAll(archive); err != nil {
			return nil, err
		}
	}
}

// sourceDigest identifies the sources and the flags. build-shim computes the same: the digest of
// the lines that sha256sum prints, in the order of the names, and the flags.
func sourceDigest(sources map[string][]byte, flags string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		fmt.Fprintf(h, "%x  %s\n", sha256.Sum256(sources[name]), name)
	}
	fmt.Fprintln(h, flags)
	return hex.EncodeToString(h.Sum(nil))
}

// openCache creates the cache directory. It returns "" and no error for "-".
func openCache(option string) (string, error) {
	dir := option
	switch option {
	case "-":
		return "", nil
	case "":
		root, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, "turnstone", "r")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if why := cacheDirProblem(info); why != "" {
		return "", errors.New(dir + " " + why)
	}
	return dir, nil
}
