package workdir

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/session"
)

// maxPathBytes bounds a path, and maxPathDirs the directories in it.
const maxPathBytes, maxPathDirs = 4096, 255

// parsePath returns the name in the working directory that a path of a client means, with slashes;
// "." is the directory itself.
func parsePath(text string) (string, error) {
	name := text
	if raw, ok := strings.CutPrefix(text, session.RawPath); ok {
		bytes, err := url.PathUnescape(raw)
		if err != nil {
			return "", session.Errorf(session.KindInvalid, "path %.200q is wrong: %v", text, err)
		}
		name = bytes
	}
	switch {
	case len(name) > maxPathBytes || strings.Count(name, "/") > maxPathDirs:
		return "", session.Errorf(session.KindInvalid, "the path has more than %d bytes or %d directories", maxPathBytes, maxPathDirs)
	case strings.ContainsRune(name, 0):
		return "", session.Errorf(session.KindInvalid, "path %.200q has a zero byte", text)
	case strings.HasPrefix(name, "/") || filepath.IsAbs(name) || filepath.VolumeName(name) != "":
		return "", session.Errorf(session.KindNoAccess, "path %.200q must be relative to the session's working directory", text)
	}
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if part == ".." {
			return "", session.Errorf(session.KindNoAccess, "path %.200q has a \"..\"; only files below the working directory can be named", text)
		}
		if fault := partFault(part); fault != "" {
			return "", session.Errorf(session.KindInvalid, "path %.200q %s", text, fault)
		}
	}
	if name = path.Clean(filepath.ToSlash(name)); !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", session.Errorf(session.KindInvalid, "path %.200q is not valid on this system", text)
	}
	return name, nil
}

// windowsFault says why a part of a path does not name a file of its own on Windows. There, some
// names mean a device, a stream of a file, or a file of another name. It returns "" for other names.
func windowsFault(part string) string {
	switch {
	case part == "" || part == ".":
		return ""
	case strings.ContainsAny(part, `:<>"|?*`):
		return fmt.Sprintf("has a character in %q that Windows does not allow", part)
	case strings.HasSuffix(part, ".") || strings.HasSuffix(part, " "):
		return fmt.Sprintf("has a dot or a space at the end of %q, which Windows drops", part)
	}
	return ""
}

// pathOf returns the path by which a client names a file.
func pathOf(name string) string {
	if !utf8.ValidString(name) {
		parts := strings.Split(name, "/")
		for i, part := range parts {
			parts[i] = url.PathEscape(part)
		}
		return session.RawPath + strings.Join(parts, "/")
	}
	if strings.HasPrefix(name, session.OwnFiles) || strings.HasPrefix(name, session.RawPath) {
		return "./" + name
	}
	return name
}
