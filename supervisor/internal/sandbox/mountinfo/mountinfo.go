package mountinfo

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
)

// A MountInfo describes a mount of the system, a line of /proc/self/mountinfo.
type MountInfo struct {
	device string // device number of the filesystem
	root   string // the directory of the filesystem that is mounted
	point  string // the mount point
	kind   string // type of the filesystem
	source string // source of the filesystem, such as a device
}

// parseMountInfo parses /proc/self/mountinfo.
func parseMountInfo(list string) (all []MountInfo) {
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 4 {
			m := MountInfo{device: f[2], root: unescapeOctal(f[3]), point: unescapeOctal(f[4])}
			if after := f[slices.Index(f, "-")+1:]; len(after) > 1 && len(after) < len(f) {
				m.kind, m.source = after[0], unescapeOctal(after[1])
			}
			all = append(all, m)
		}
	}
	return all
}

// unescapeOctal replaces the octal escapes that the kernel writes for spaces and some other
// characters.
func unescapeOctal(path string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(path, `\`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n, err := strconv.ParseUint(after[:min(3, len(after))], 8, 8)
		if err != nil {
			b.WriteString(`\` + after)
			return b.String()
		}
		b.WriteByte(byte(n))
		path = after[3:]
	}
}

// A mountAlias is another path at which a directory is visible, and the mount point of that path.
type mountAlias struct{ Path, Point string }

// ReadMounts returns the system's mounts, or nil if the system does not list them.
func ReadMounts() []MountInfo {
	list, _ := os.ReadFile("/proc/self/mountinfo")
	return parseMountInfo(string(list))
}

// WindowsHomes returns the home directories of Windows, under WSL. WSL mounts the drives below
// /mnt, or where /etc/wsl.conf says.
func WindowsHomes(all []MountInfo) (dirs []string) {
	drives := linkpath.GlobPaths("/mnt", "?")
	for _, m := range all {
		if isDrive(m.source) && !slices.Contains(drives, m.point) {
			drives = append(drives, m.point)
		}
	}
	for _, drive := range drives {
		dirs = append(dirs, linkpath.GlobPaths(drive, "Users/*")...)
	}
	return dirs
}

// isDrive reports whether the source of a mount is a drive of Windows, such as C: or C:\.
func isDrive(source string) bool {
	return len(source) == 2 && source[1] == ':' || len(source) == 3 && source[1:] == `:\`
}

// mountOf returns the mount that contains a path, and the path within its filesystem.
func mountOf(all []MountInfo, path string) (own MountInfo, at string) {
	for _, m := range all { // of two mounts at one path, the later one is visible
		if paths.Contains(m.point, path) && len(m.point) >= len(own.point) {
			own = m
		}
	}
	return own, filepath.Join(own.root, strings.TrimPrefix(path, own.point))
}

// MountAliases returns the other paths at which a directory is visible.
func MountAliases(all []MountInfo, dir string) (found []mountAlias) {
	own, at := mountOf(all, dir)
	for _, m := range all {
		if m.device != own.device || !paths.Contains(m.root, at) {
			continue
		}
		path := filepath.Join(m.point, strings.TrimPrefix(at, m.root))
		if path != dir && !slices.ContainsFunc(found, func(s mountAlias) bool { return s.Path == path }) {
			found = append(found, mountAlias{path, m.point})
		}
	}
	return found
}

// MountsInside returns the mount points that show something inside a directory, each with its path
// in the directory.
func MountsInside(all []MountInfo, dir string) map[string]string {
	found := map[string]string{}
	own, at := mountOf(all, dir)
	for _, m := range all {
		if m.device == own.device && m.root != at && paths.Contains(at, m.root) && !paths.Contains(dir, m.point) {
			found[m.point] = filepath.Join(dir, strings.TrimPrefix(m.root, at))
		}
	}
	return found
}

// IsSameFile reports whether two paths lead to the same file or directory.
func IsSameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
