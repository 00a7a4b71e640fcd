package r

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"debug/pe"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// readManifest reads prebuilt/MANIFEST. It returns the rest of each line by its first word.
func readManifest(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("prebuilt/MANIFEST")
	if err != nil {
		t.Fatal(err)
	}
	says := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		says[name] = rest
	}
	return says
}

// readPrebuilt returns a binary in prebuilt, where it is compressed.
func readPrebuilt(t *testing.T, target string) []byte {
	t.Helper()
	f, err := os.Open("prebuilt/" + target + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestPrebuiltShim(t *testing.T) {
	t.Run("was built from this source", func(t *testing.T) {
		says := readManifest(t)
		sources, err := shimSources()
		if err != nil {
			t.Fatal(err)
		}
		if got := sourceDigest(sources, says["flags"]+"\n"+says["flags-windows"]); got != says["source"] {
			t.Errorf("the source is %s, but the binaries were built from %s: run go generate ./workers/r", got, says["source"])
		}
		paths, err := filepath.Glob("src/shim/*.[ch]")
		if err != nil || len(paths) != len(sources) {
			t.Errorf("the archive has %d files, and the tree has %d (%v): run go generate ./workers/r", len(sources), len(paths), err)
		}
		for _, path := range paths {
			if source, err := os.ReadFile(path); err != nil || !bytes.Equal(source, sources[filepath.Base(path)]) {
				t.Errorf("the archive does not contain %s as it is (%v): run go generate ./workers/r", path, err)
			}
		}
		for _, target := range slices.Concat(slices.Collect(maps.Keys(prebuiltMachines())), []string{windowsShim}) {
			sum := sha256.Sum256(readPrebuilt(t, target))
			if want, _, _ := strings.Cut(says[target], " "); hex.EncodeToString(sum[:]) != want {
				t.Errorf("%s is not the file that the manifest names: run go generate ./workers/r", target)
			}
		}
	})

	t.Run("is small and needs only system DLLs on Windows", func(t *testing.T) {
		content := readPrebuilt(t, windowsShim)
		f, err := pe.NewFile(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Machine != pe.IMAGE_FILE_MACHINE_AMD64 || f.TimeDateStamp != 0 {
			t.Errorf("it is for machine %#x, with the time stamp %d", f.Machine, f.TimeDateStamp)
		}
		imported, err := f.ImportedSymbols()
		if err != nil {
			t.Fatal(err)
		}
		for _, symbol := range imported { // "Sleep:KERNEL32.dll"
			if _, library, _ := strings.Cut(symbol, ":"); !slices.Contains([]string{"KERNEL32.dll", "USER32.dll", "msvcrt.dll"}, library) {
				t.Errorf("it needs %s", symbol)
			}
		}
		if len(content) > maxDLLBytes {
			t.Errorf("it has %d bytes, want at most %d", len(content), maxDLLBytes)
		}
	})

	t.Run("works with every R and C library", func(t *testing.T) {
		for target, machine := range prebuiltMachines() {
			t.Run(target, func(t *testing.T) {
				f, err := elf.NewFile(bytes.NewReader(readPrebuilt(t, target)))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if f.Machine != machine || f.Type != elf.ET_DYN {
					t.Errorf("it is %v of %v", f.Type, f.Machine)
				}
				wantPortableELF(t, f)
				comment, err := f.Section(".comment").Data()
				_, compiler, _ := strings.Cut(readManifest(t)[target], ") ") // "gcc (Debian 12.2.0-14) 12.2.0"
				if err != nil || compiler == "" || !bytes.Contains(comment, []byte(compiler)) {
					t.Errorf("it was compiled by %q, but the manifest says %q", comment, compiler)
				}
			})
		}
	})
}

func prebuiltMachines() map[string]elf.Machine {
	return map[string]elf.Machine{"linux-amd64.so": elf.EM_X86_64, "linux-arm64.so": elf.EM_AARCH64}
}

const windowsShim = "windows-amd64.dll"

// maxDLLBytes bounds the shim for Windows, which every program embeds.
const maxDLLBytes = 100 << 10

// wantPortableELF fails the test unless a shim needs no library and no symbol version, and exports
// exactly the functions that R code calls.
func wantPortableELF(t *testing.T, f *elf.File) {
	t.Helper()
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("it needs the libraries %v (%v)", libraries, err)
	}
	if f.SectionByType(elf.SHT_GNU_VERNEED) != nil {
		versions, err := f.DynamicVersionNeeds()
		t.Errorf("it needs the versions %v (%v)", versions, err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	// These are in the static part of some glibc version, where libraries cannot find them, or only
	// in glibc.
	static := []string{"atexit", "at_quick_exit", "pthread_atfork", "stat", "fstat", "lstat", "fstatat", "mknod"}
	var exported []string
	for _, s := range symbols {
		weak := elf.ST_BIND(s.Info) == elf.STB_WEAK
		switch {
		case elf.ST_TYPE(s.Info) == elf.STT_SECTION:
		case s.Section != elf.SHN_UNDEF:
			exported = append(exported, s.Name)
		case weak:
		case slices.Contains(static, s.Name) || strings.HasSuffix(s.Name, "_chk") || strings.HasPrefix(s.Name, "__isoc23"):
			t.Errorf("it needs %s, which not every C library exports", s.Name)
		case strings.HasPrefix(s.Name, "R_") || strings.HasPrefix(s.Name, "Rf_"):
			t.Errorf("it needs %s, which not every R may have: make it weak", s.Name)
		}
	}
	slices.Sort(exported)
	if want := markedExports(t); !slices.Equal(exported, want) {
		t.Errorf("it exports %v, want what the source marks with EXPORT: %v", exported, want)
	}
	scripts, err := scriptSources()
	if err != nil {
		t.Fatal(err)
	}
	for name, code := range scripts {
		for _, called := range regexp.MustCompile(`"(turnstone_\w+)"`).FindAllSubmatch(code, -1) {
			if !slices.Contains(exported, string(called[1])) {
				t.Errorf("%s calls %s, which it does not export", name, called[1])
			}
		}
	}
}

// markedExports returns the functions that the source marks with EXPORT.
func markedExports(t *testing.T) []string {
	t.Helper()
	sources, err := shimSources()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, code := range sources {
		for _, marked := range regexp.MustCompile(`(?m)^EXPORT (?:void|SEXP) (turnstone_\w+)\(`).FindAllSubmatch(code, -1) {
			names = append(names, string(marked[1]))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		t.Fatal("no function is marked")
	}
	return names
}

// requireCompiler skips the test if there is no compiler.
func requireCompiler(t *testing.T) {
	t.Helper()
	if !canCompile {
		t.Skip("the shim is prebuilt on this system")
	}
	if findCompiler() == "" {
		t.Skip("cc is not installed: install gcc and libc6-dev")
	}
}

// setCompilerDirs makes the search for compilers start in dirs. If alone is set, it searches only there.
func setCompilerDirs(t *testing.T, alone bool, dirs ...string) {
	t.Helper()
	before := compilerDirs
	t.Cleanup(func() { compilerDirs = before })
	if !alone {
		dirs = append(dirs, before...)
	}
	compilerDirs = dirs
}

// useFastCompiler makes the first compiler one that does not optimize, for tests that need any
// compiler.
func useFastCompiler(t *testing.T) {
	t.Helper()
	requireCompiler(t)
	bin := t.TempDir()
	if err := testexec.WriteExecutable(filepath.Join(bin, "cc"), []byte("#!/bin/sh\nexec '"+findCompiler()+"' \"$@\" -O0\n")); err != nil {
		t.Fatal(err)
	}
	setCompilerDirs(t, false, bin)
}

// A progressLog collects messages of progress for a test.
type progressLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *progressLog) addLine(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func TestLoadShim(t *testing.T) {
	t.Run("compiles once and caches the result", func(t *testing.T) {
		requireCompiler(t)
		cache := filepath.Join(t.TempDir(), "r")
		var first, second progressLog
		shim, _, err := loadShim(t.Context(), cache, first.addLine)
		if err != nil {
			t.Fatal(err)
		}
		if len(first.lines) != 1 || !strings.Contains(first.lines[0], "compiling") {
			t.Errorf("progress was %q", first.lines)
		}
		if f, err := elf.NewFile(bytes.NewReader(shim)); err == nil {
			wantPortableELF(t, f)
		} else if runtime.GOARCH == "amd64" && compressedShim != nil {
			t.Error(err)
		}
		info, err := os.Stat(cache)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the cache is %v, %v", info, err)
		}
		again, _, err := loadShim(t.Context(), cache, second.addLine)
		if err != nil || !bytes.Equal(again, shim) || len(second.lines) > 0 {
			t.Errorf("second call: %v, %q", err, second.lines)
		}
		if entries, _ := os.ReadDir(cache); len(entries) != 1 {
			t.Errorf("the cache holds %v", entries)
		}
	})

	t.Run("two processes may compile at once", func(t *testing.T) {
		useFastCompiler(t)
		cache := t.TempDir()
		if err := os.Chmod(cache, 0o700); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var shims [2][]byte
		for i := range shims {
			wg.Go(func() {
				shim, _, err := loadShim(t.Context(), cache, func(string) {})
				if err != nil {
					t.Error(err)
				}
				shims[i] = shim
			})
		}
		wg.Wait()
		for _, shim := range shims {
			if len(shim) == 0 || !bytes.Equal(shim, shims[0]) {
				t.Error("they differ")
			}
		}
		if entries, _ := os.ReadDir(cache); len(entries) != 1 {
			t.Errorf("the cache holds %v", entries)
		}
	})

	t.Run("does not use a cache that others can write", func(t *testing.T) {
		useFastCompiler(t)
		cache := t.TempDir()
		if err := os.Chmod(cache, 0o777); err != nil {
			t.Fatal(err)
		}
		var s progressLog
		_, notice, err := loadShim(t.Context(), cache, s.addLine)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.lines) != 1 || !strings.Contains(notice, "is writable by others") {
			t.Errorf("progress was %q, and the notice %q", s.lines, notice)
		}
		if entries, _ := os.ReadDir(cache); len(entries) != 0 {
			t.Errorf("the directory has %v", entries)
		}
	})

	t.Run("an error says what to install", func(t *testing.T) {
		requireCompiler(t)
		setCompilerDirs(t, true, t.TempDir())
		_, _, err := loadShim(t.Context(), "-", func(string) {})
		if err == nil || !strings.Contains(err.Error(), "no C compiler") || !strings.Contains(err.Error(), howToInstallCompiler) {
			t.Errorf("without a compiler: got %v", err)
		}
		bin := t.TempDir()
		script := "#!/bin/sh\necho 'shim.h:20:10: fatal error: pthread.h: No such file or directory' >&2\nexit 1\n"
		if err := testexec.WriteExecutable(filepath.Join(bin, "cc"), []byte(script)); err != nil {
			t.Fatal(err)
		}
		setCompilerDirs(t, true, bin)
		_, _, err = loadShim(t.Context(), "-", func(string) {})
		if err == nil || !strings.Contains(err.Error(), "fatal error: pthread.h") || !strings.Contains(err.Error(), howToInstallCompiler) {
			t.Errorf("without headers: got %v", err)
		}
		script = "#!/bin/sh\necho 'shim.c:1:1: warning: odd' >&2\necho 'shim.c:7:9: error: unknown type name' >&2\nexit 1\n"
		if err := testexec.WriteExecutable(filepath.Join(bin, "cc"), []byte(script)); err != nil {
			t.Fatal(err)
		}
		_, _, err = loadShim(t.Context(), "-", func(string) {})
		if err == nil || !strings.HasSuffix(err.Error(), ": shim.c:7:9: error: unknown type name") {
			t.Errorf("a compiler that is too old: got %v", err)
		}
	})

	t.Run("stops when the context is canceled", func(t *testing.T) {
		requireCompiler(t)
		bin := t.TempDir()
		if err := testexec.WriteExecutable(filepath.Join(bin, "cc"), []byte("#!/bin/sh\nexec sleep 3600\n")); err != nil {
			t.Fatal(err)
		}
		setCompilerDirs(t, false, bin)
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := loadShim(ctx, "-", func(string) { cancel() })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})

	// A sandboxed session may have written the programs that PATH and other variables name.
	t.Run("runs no program of a project", func(t *testing.T) {
		requireCompiler(t)
		project, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
		for _, name := range []string{"cc", "gcc", "clang", "as", "ld", "cc1", "collect2", "xcrun"} {
			if err := testexec.WriteExecutable(filepath.Join(project, name), []byte("#!/bin/sh\n>'"+ran+"'\nexit 1\n")); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", project+":"+os.Getenv("PATH"))
		t.Setenv("COMPILER_PATH", project)
		t.Setenv("GCC_EXEC_PREFIX", project+"/")
		if _, _, err := loadShim(t.Context(), "-", func(string) {}); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Error("a program of the project ran")
		}
	})
}
