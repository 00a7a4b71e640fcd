package cmdflags

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadEnvFile(t *testing.T) {
	t.Run("reads comments and quotes and escapes", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), ".env")
		text := "\ufeff# comment\n\nA=1\nexport B = two words # comment\r\nC='single $A \\n'\nD=\"a\\n\\\"b\\\" \\$A \\d\" # comment\nE=\nF=a#b\nG==x"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		want := []string{"A=1", "B=two words", `C=single $A \n`, "D=a\n\"b\" $A \\d", "E=", "F=a#b", "G==x"}
		if got, err := readEnvFile(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v\nwant %q", got, err, want)
		}
	})

	t.Run("names the invalid line", func(t *testing.T) {
		for text, want := range map[string]string{
			"A=1\nB\n": "line 2: not NAME=VALUE",
			"1A=1":     `line 1: "1A" is not a valid variable name`,
			"\n\nA='x": "line 3: a quote is not closed",
			`A="x" y`:  `line 1: unexpected "y" after`,
			"A=\x00":   "line 1: a variable cannot hold a NUL",
			strings.Repeat("#", maxEnvFileBytes) + "#": "larger than 1 MiB",
		} {
			path := filepath.Join(t.TempDir(), ".env")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := readEnvFile(path); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.20q: got %q and error %v, want %q", text, got, err, want)
			}
		}
	})
}
