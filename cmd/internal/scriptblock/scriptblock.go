// Package scriptblock reads the comment block "script" of a Python file, in which the file says what
// it needs (PEP 723):
//
//	# /// script
//	# requires-python = ">=3.11"
//	# dependencies = ["requests<3"]
//	# ///
//
// It reads text only, and decides nothing: its caller installs the packages and finds the
// interpreter. It starts no goroutines.
package scriptblock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// maxFileBytes bounds the size of a file that is searched for a block.
const maxFileBytes = 64 << 20

// endLine is the last line of a block.
const endLine = "# ///"

// startLine matches the first line of a block, and captures its type.
var startLine = text.Pattern(`^# /// ([a-zA-Z0-9-]+)$`)

// scriptType is the type of the only block that is read. Tools must not read other types.
const scriptType = "script"

// A Block says what a file needs.
type Block struct {
	Dependencies   []string // requirements, as for pip
	RequiresPython string   // conditions for the version; "" if there are none

	// Notices are lines for the user about parts of the block that have no effect.
	Notices []string
}

// ReadFile reads the block of a file. found is false if the file has none. A file that is not a
// regular one, such as a pipe, has none, because reading it would leave nothing to run.
func ReadFile(path string) (b Block, found bool, err error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return b, false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return b, false, err
	}
	defer f.Close()
	source, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return b, false, err
	}
	if len(source) > maxFileBytes {
		b.Notices = []string{fmt.Sprintf("%s is larger than %d MiB, and was not searched for a block \"script\"", path, maxFileBytes>>20)}
		return b, false, nil
	}
	if b, found, err = Parse(source); err != nil {
		return b, found, fmt.Errorf("%s: %w", path, err)
	}
	for i := range b.Notices {
		b.Notices[i] = path + ": " + b.Notices[i]
	}
	return b, found, nil
}

// Parse reads the block of a source text. The text may have any line ends and a byte order mark. A
// block without an end is ignored, as PEP 723 demands, with a notice.
func Parse(source []byte) (b Block, found bool, err error) {
	lines := splitLines(source)
	start := 0 // line number of the block, from 1
	var content []string
	for i := 0; i < len(lines); i++ {
		kind := startLine().FindStringSubmatch(lines[i])
		if kind == nil {
			continue
		}
		rest := commentLines(lines[i+1:])
		end := lastIndex(rest, endLine)
		switch {
		case end < 0 && kind[1] == scriptType:
			b.Notices = append(b.Notices, unclosedNotice(i+1, rest))
		case end < 0:
		case kind[1] != scriptType:
			i += end + 1
		case start > 0:
			return b, true, fmt.Errorf("line %d: a second block \"script\"; the first is in line %d, and a file may have only one", i+1, start)
		default:
			start, content = i+1, rest[:end]
			i += end + 1
		}
	}
	if start == 0 {
		return b, false, nil
	}
	return b, true, b.parseContent(content, start)
}

// splitLines returns the lines of a text without their ends.
func splitLines(source []byte) []string {
	source = bytes.TrimPrefix(source, []byte("\ufeff"))
	all := strings.ReplaceAll(string(source), "\r\n", "\n")
	return strings.Split(strings.ReplaceAll(all, "\r", "\n"), "\n")
}

// commentLines returns the leading lines that can be in a block: "#", or "# " and more.
func commentLines(lines []string) []string {
	n := slices.IndexFunc(lines, func(line string) bool { return line != "#" && !strings.HasPrefix(line, "# ") })
	if n < 0 {
		return lines
	}
	return lines[:n]
}

// lastIndex returns the index of the last line that equals want, or -1. The last one counts, because
// the content may have lines that look like an end.
func lastIndex(lines []string, want string) int {
	for i, line := range slices.Backward(lines) {
		if line == want {
			return i
		}
	}
	return -1
}

// unclosedNotice returns a notice about a block that starts in this line and has no end.
func unclosedNotice(start int, content []string) string {
	notice := fmt.Sprintf("line %d: the block \"script\" is ignored, because it has no end line %q", start, endLine)
	for i, line := range content {
		if strings.TrimSpace(line) == endLine {
			return notice + fmt.Sprintf("; line %d has a space after it", start+i+1)
		}
	}
	return notice + fmt.Sprintf(" before line %d, which does not start with \"# \"", start+len(content)+1)
}

// parseContent parses the lines between start and end.
func (b *Block) parseContent(lines []string, start int) error {
	var content strings.Builder
	for _, line := range lines {
		content.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ") + "\n")
	}
	if !utf8.ValidString(content.String()) {
		return fmt.Errorf("line %d: the block \"script\" is not UTF-8", start)
	}
	var fields map[string]any
	if err := toml.Unmarshal([]byte(content.String()), &fields); err != nil {
		line := start
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, _ := at.Position()
			line += row
		}
		return fmt.Errorf("line %d: the block \"script\" is not valid TOML: %s", line, strings.TrimPrefix(err.Error(), "toml: "))
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := b.setField(name, fields[name]); err != nil {
			return fmt.Errorf("the block \"script\" in line %d: %w", start, err)
		}
	}
	return nil
}

// plainKey matches a key that TOML writes without quotes.
var plainKey = text.Pattern(`^[A-Za-z0-9_-]{1,50}$`)

// setField sets the field of this name.
func (b *Block) setField(name string, value any) error {
	switch name {
	case "dependencies":
		list, ok := value.([]any)
		if !ok {
			return errors.New("dependencies must be a list of texts")
		}
		for _, one := range list {
			requirement, ok := one.(string)
			if !ok {
				return fmt.Errorf("dependencies must be a list of texts, and %v is none", one)
			}
			if err := checkRequirement(requirement); err != nil {
				return err
			}
			b.Dependencies = append(b.Dependencies, requirement)
		}
	case "requires-python":
		requires, ok := value.(string)
		if !ok {
			return errors.New("requires-python must be a text")
		}
		if requires = strings.TrimSpace(requires); requires == "" {
			return nil
		}
		if err := python.CheckRequires(requires); err != nil {
			return fmt.Errorf("requires-python: %w", err)
		}
		b.RequiresPython = requires
	case "tool":
		tools, _ := value.(map[string]any)
		for _, tool := range slices.Sorted(maps.Keys(tools)) {
			if !plainKey().MatchString(tool) {
				tool = fmt.Sprintf("%q", text.Shorten(tool, 50))
			}
			b.Notices = append(b.Notices, fmt.Sprintf("[tool.%s] is ignored; it is for another program", tool))
		}
	default:
		b.Notices = append(b.Notices, fmt.Sprintf("the unknown field %q is ignored", text.Shorten(name, 50)))
	}
	return nil
}

// requirement matches a requirement of PEP 508: a name, then extras, then versions or a URL, and a
// marker.
var requirement = text.Pattern(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\s*(?:\[[A-Za-z0-9._\s,-]*\]\s*)?` +
	`(?:@\s*[A-Za-z][A-Za-z0-9+.-]*:\S+\s*|\(?\s*` + oneVersion + `(?:,\s*` + oneVersion + `)*,?\s*\)?\s*)?(?:;.*)?$`)

// oneVersion matches one condition for a version.
const oneVersion = `(?:~=|===?|!=|<=?|>=?)\s*[A-Za-z0-9.*+!_-]+\s*`

// checkRequirement returns an error unless the text names a project, as for pip. Options, paths and
// URLs without a name are none.
func checkRequirement(one string) error {
	if !requirement().MatchString(strings.TrimSpace(one)) || strings.ContainsFunc(one, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("dependencies: %q is not a requirement; write it as for pip, such as \"numpy\" or \"numpy>=2\"", text.Shorten(one, 100))
	}
	return nil
}
