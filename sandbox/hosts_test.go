package sandbox_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/sandbox"
)

func TestParseHostPattern(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"example.org": "example.org", "Example.ORG.": "example.org", "*.example.org": "*.example.org", "example.org:5432": "example.org:5432",
		"*.example.org:443": "*.example.org:443", "db": "db", "my_db.internal": "my_db.internal", "192.0.2.7": "192.0.2.7", "192.0.2.7:80": "192.0.2.7:80",
		"2001:db8::1": "2001:db8::1", "[2001:db8::1]": "2001:db8::1", "[2001:db8::1]:443": "[2001:db8::1]:443", "::ffff:10.0.0.1": "10.0.0.1",
	} {
		if h, err := sandbox.ParseHostPattern(pattern); err != nil || h.String() != want {
			t.Errorf("%s: got %s, %v, want %s", pattern, h, err, want)
		}
	}
	for _, wrong := range []string{
		"", "*", "*.", "*.*", "**.org", "a.*.org", "http://example.org", "example.org/x", "example.org:", "example.org:0", "example.org:65536", "example.org:http",
		"a..b", ".a", "ex ample.org", "ex\x00ample.org", "münchen.de", "10.0.0", "10.0.0.0/8", "1.2.3.4.5", "*.10.0.0.1", "fe80::1%eth0", strings.Repeat("a", 64) + ".org", strings.Repeat("a.", 127) + "b",
		"packages:443x",
	} {
		if h, err := sandbox.ParseHostPattern(wrong); err == nil {
			t.Errorf("%q: got %v, want an error", wrong, h)
		}
	}
}

func FuzzParseHost(f *testing.F) {
	f.Add("*.example.org:5432")
	f.Add("[2001:db8::1]:443")
	f.Fuzz(func(t *testing.T, pattern string) {
		h, err := sandbox.ParseHostPattern(pattern)
		if err != nil {
			return
		}
		if again, err := sandbox.ParseHostPattern(h.String()); err != nil || again != h {
			t.Fatalf("%q: got %v, and from that %v, %v", pattern, h, again, err)
		}
	})
}
