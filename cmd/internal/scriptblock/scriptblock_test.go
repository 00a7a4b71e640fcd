package scriptblock_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/scriptblock"
)

func block(lines ...string) string {
	return "# /// script\n# " + strings.Join(lines, "\n# ") + "\n# ///\n"
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		source   string
		found    bool
		deps     []string
		requires string
		notice   string // part of the only one
	}{
		"no block":                         {source: "print(1)\n"},
		"an empty file":                    {source: ""},
		"a block":                          {block(`requires-python = ">=3.11"`, `dependencies = [`, `  "requests<3",`, `  "rich",`, `]`) + "import rich\n", true, []string{"requests<3", "rich"}, ">=3.11", ""},
		"behind other lines":               {"#!/usr/bin/env repl\n\"\"\"Doc.\"\"\"\nimport os\n\n" + block(`dependencies = ["a"]`), true, []string{"a"}, "", ""},
		"no dependencies":                  {block(`requires-python = ">=3.8"`), true, nil, ">=3.8", ""},
		"empty dependencies":               {block(`dependencies = [`, `]`), true, nil, "", ""},
		"an empty block":                   {"# /// script\n# ///\n", true, nil, "", ""},
		"a byte order mark":                {"\ufeff" + block(`dependencies = ["a"]`), true, []string{"a"}, "", ""},
		"lines of Windows":                 {strings.ReplaceAll(block(`dependencies = ["a"]`, ``), "\n", "\r\n"), true, []string{"a"}, "", ""},
		"lines of old Macs":                {strings.ReplaceAll(block(`dependencies = ["a"]`), "\n", "\r"), true, []string{"a"}, "", ""},
		"no end of the last line":          {strings.TrimSuffix(block(`dependencies = ["a"]`), "\n"), true, []string{"a"}, "", ""},
		"empty comment lines":              {"# /// script\n#\n# dependencies = [\"a\"]\n#\n# ///\n", true, []string{"a"}, "", ""},
		"the last end counts":              {"# /// script\n# dependencies = [\"a\"]\n# x = '''\n# ///\n# '''\n# ///\n", true, []string{"a"}, "", `unknown field "x"`},
		"text after the end":               {block(`dependencies = ["a"]`) + "# more text\n", true, []string{"a"}, "", ""},
		"another block before":             {"# /// other\n# dependencies = [\"b\"]\n# ///\n\n" + block(`dependencies = ["a"]`), true, []string{"a"}, "", ""},
		"another block that swallows it":   {"# /// other\n# x\n# ///\n" + block(`dependencies = ["a"]`), false, nil, "", ""},
		"another block without an end":     {"# /// other\n# x\n\n" + block(`dependencies = ["a"]`), true, []string{"a"}, "", ""},
		"the block pyproject of drafts":    {"# /// pyproject\n# [run]\n# dependencies = [\"a\"]\n# ///\n", false, nil, "", ""},
		"no end":                           {"# /// script\n# dependencies = [\"a\"]\nimport a\n", false, nil, "", "line 1: the block \"script\" is ignored, because it has no end line \"# ///\" before line 3"},
		"a space behind the end":           {"# /// script\n# dependencies = [\"a\"]\n# /// \n", false, nil, "", "line 3 has a space after it"},
		"a line that is no comment":        {"# /// script\n# dependencies = [\n\n# \"a\"]\n# ///\n", false, nil, "", "before line 3"},
		"a line without a space":           {"# /// script\n#dependencies = [\"a\"]\n# ///\n", false, nil, "", "before line 2"},
		"a block without an end before":    {"# /// script\n# x\n\n" + block(`dependencies = ["a"]`), true, []string{"a"}, "", "line 1"},
		"an indented start":                {"    # /// script\n    # dependencies = [\"a\"]\n    # ///\n", false, nil, "", ""},
		"a space behind the start":         {"# /// script \n# dependencies = [\"a\"]\n# ///\n", false, nil, "", ""},
		"settings of uv":                   {block(`dependencies = ["a"]`, `[tool.uv]`, `exclude-newer = "2024-01-01T00:00:00Z"`, `[[tool.uv.index]]`, `url = "https://example.org"`), true, []string{"a"}, "", "[tool.uv] is ignored"},
		"a tool that draws":                {block(`tool."a\u001b[2Jb".x = 1`), true, nil, "", `[tool."a\x1b[2Jb"] is ignored`},
		"an unknown field":                 {block(`dependancies = ["a"]`), true, nil, "", `"dependancies"`},
		"requirements of all forms":        {block(`dependencies = ["a", "A_b.c[x, y]>=1,<2", "d (>=1)", "e @ https://example.org/e-1.0.whl", "f; python_version < '3'", "g==1.*", "h ~= 1.0 ; sys_platform == 'x'"]`), true, []string{"a", "A_b.c[x, y]>=1,<2", "d (>=1)", "e @ https://example.org/e-1.0.whl", "f; python_version < '3'", "g==1.*", "h ~= 1.0 ; sys_platform == 'x'"}, "", ""},
		"versions with suffixes":           {block(`requires-python = ">=3.14.0rc1, !=3.14.1, <4,"`), true, nil, ">=3.14.0rc1, !=3.14.1, <4,", ""},
		"an empty requires-python":         {block(`requires-python = ""`), true, nil, "", ""},
		"dotted keys and literal strings":  {block(`dependencies = ['a',]`, `tool.x.y = 1`), true, []string{"a"}, "", "[tool.x] is ignored"},
		"other bytes outside of the block": {"x = '\xff'\n" + block(`dependencies = ["a"]`), true, []string{"a"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, found, err := scriptblock.Parse([]byte(c.source))
			if err != nil {
				t.Fatal(err)
			}
			if found != c.found || !slices.Equal(b.Dependencies, c.deps) || b.RequiresPython != c.requires {
				t.Errorf("got %v, %+v", found, b)
			}
			if c.notice == "" && len(b.Notices) > 0 || c.notice != "" && (len(b.Notices) != 1 || !strings.Contains(b.Notices[0], c.notice)) {
				t.Errorf("notices: %q", b.Notices)
			}
		})
	}
}

func TestParse_Errors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ source, want string }{
		"two blocks":                {block(`dependencies = ["a"]`) + "\n" + block(`dependencies = ["b"]`), "line 5: a second block \"script\"; the first is in line 1"},
		"a missing comma":           {"x = 1\n" + block(`dependencies = [`, `  "a"`, `  "b",`, `]`), "line 5: the block \"script\" is not valid TOML"},
		"an unfinished list":        {block(`dependencies = ["a"`), "is not valid TOML"},
		"a repeated key":            {block(`dependencies = []`, `dependencies = []`), "is not valid TOML"},
		"a block in the block":      {"# /// script\n# dependencies = []\n# ///\n" + block(`dependencies = ["b"]`), "is not valid TOML"},
		"a text for a list":         {block(`dependencies = "a"`), "dependencies must be a list of texts"},
		"a number in the list":      {block(`dependencies = [1]`), "dependencies must be a list of texts, and 1 is none"},
		"a table for a list":        {block(`[dependencies]`, `a = "1"`), "dependencies must be a list of texts"},
		"a number for a version":    {block(`requires-python = 3.11`), "requires-python must be a text"},
		"no condition":              {block(`requires-python = "3.11"`), `"3.11" is not a condition for a version`},
		"a condition of poetry":     {block(`requires-python = "^3.11"`), `"^3.11" is not a condition for a version`},
		"a star with >=":            {block(`requires-python = ">=3.11.*"`), "the operator does not go with"},
		"a short ~=":                {block(`requires-python = "~=3"`), "the operator does not go with"},
		"an option":                 {block(`dependencies = ["--index-url=https://evil.example"]`), "is not a requirement"},
		"a requirement and option":  {block(`dependencies = ["a --index-url https://evil.example"]`), "is not a requirement"},
		"a path":                    {block(`dependencies = ["./a"]`), "is not a requirement"},
		"a path behind a name":      {block(`dependencies = ["a/b"]`), "is not a requirement"},
		"a URL without a name":      {block(`dependencies = ["https://example.org/a.whl"]`), "is not a requirement"},
		"a relative URL":            {block(`dependencies = ["a @ ./a"]`), "is not a requirement"},
		"two names":                 {block(`dependencies = ["a b"]`), "is not a requirement"},
		"an empty requirement":      {block(`dependencies = [""]`), "is not a requirement"},
		"a newline":                 {block(`dependencies = ["a\n--evil"]`), "is not a requirement"},
		"a condition without value": {block(`dependencies = ["a>="]`), "is not a requirement"},
		"other bytes":               {block("dependencies = [\"\xff\"]"), "is not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if b, found, err := scriptblock.Parse([]byte(c.source)); err == nil || !found || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v, %v; want %q", b, found, err, c.want)
			}
		})
	}
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b.py")
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte(block(`dependencies = ["a"]`, `[tool.uv]`)))
	if b, found, err := scriptblock.ReadFile(path); err != nil || !found || !slices.Equal(b.Notices, []string{path + ": [tool.uv] is ignored; it is for another program"}) {
		t.Errorf("got %+v, %v, %v", b, found, err)
	}
	write([]byte(block(`dependencies = [`)))
	if _, _, err := scriptblock.ReadFile(path); err == nil || !strings.HasPrefix(err.Error(), path+": line ") {
		t.Errorf("got %v", err)
	}
	if _, _, err := scriptblock.ReadFile(path + "x"); err == nil {
		t.Error("a missing file has a block")
	}
	if _, found, err := scriptblock.ReadFile(filepath.Dir(path)); err != nil || found {
		t.Errorf("a directory: got %v, %v", found, err)
	}
	write(append(bytes.Repeat([]byte("#\n"), 32<<20), block(`dependencies = ["a"]`)...))
	if b, found, err := scriptblock.ReadFile(path); err != nil || found || len(b.Notices) != 1 || !strings.Contains(b.Notices[0], "is larger than 64 MiB") {
		t.Errorf("a large file: got %+v, %v, %v", b, found, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(block(`dependencies = ["a"]`, `requires-python = ">=3"`)))
	f.Add([]byte("# /// script\r\n# x = '''\r\n# ///\r\n# '''\r\n# ///"))
	f.Fuzz(func(t *testing.T, source []byte) {
		b, found, err := scriptblock.Parse(source)
		if !found && (err != nil || len(b.Dependencies) > 0) {
			t.Errorf("%q: got %+v, %v, %v", source, b, found, err)
		}
		for _, one := range b.Dependencies {
			if strings.HasPrefix(one, "-") || strings.ContainsAny(one, "\r\n") {
				t.Errorf("%q: the requirement %q", source, one)
			}
		}
	})
}
