//go:build !windows

// Only the sandboxes of Linux use this package.

package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/turnstone-repl/turnstone/sandbox"
)

func newTestPolicy(t *testing.T, hosts ...string) *HostPolicy {
	t.Helper()
	p, err := New(Options{Machine: "Box", Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newQuestion packs a DNS question about a name.
func newQuestion(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	n, err := dnsmessage.NewName(name)
	if err != nil {
		t.Fatal(err)
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true}, Questions: []dnsmessage.Question{{Name: n, Type: kind, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func askName(t testing.TB, p *HostPolicy, name string, kind dnsmessage.Type) (dnsmessage.RCode, string) {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(p.answerQuestion(newQuestion(t, name, kind))); err != nil {
		t.Fatal(err)
	}
	if m.ID != 7 || !m.Response || len(m.Questions) != 1 {
		t.Fatalf("got %+v, want an answer to the question", m)
	}
	if len(m.Answers) == 0 {
		return m.RCode, ""
	}
	switch b := m.Answers[0].Body.(type) {
	case *dnsmessage.AResource:
		return m.RCode, netip.AddrFrom4(b.A).String()
	case *dnsmessage.AAAAResource:
		return m.RCode, netip.AddrFrom16(b.AAAA).String()
	case *dnsmessage.PTRResource:
		return m.RCode, b.PTR.String()
	}
	return m.RCode, "?"
}

func TestAnswerQuestion(t *testing.T) {
	t.Parallel()

	t.Run("gives each name its own address", func(t *testing.T) {
		t.Parallel()
		p := newTestPolicy(t)
		long := strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 61) + "."
		for _, row := range []struct {
			name string
			kind dnsmessage.Type
			code dnsmessage.RCode
			want string
		}{
			{"example.org.", dnsmessage.TypeA, 0, "198.18.0.2"},
			{"EXAMPLE.org.", dnsmessage.TypeA, 0, "198.18.0.2"},
			{"other.org.", dnsmessage.TypeA, 0, "198.18.0.3"},
			{"example.org.", dnsmessage.TypeAAAA, 0, ""},
			{"example.org.", dnsmessage.TypeMX, 0, ""},
			{"localhost.", dnsmessage.TypeA, 0, "127.0.0.1"},
			{"x.localhost.", dnsmessage.TypeAAAA, 0, "::1"},
			{"box.", dnsmessage.TypeA, 0, "127.0.0.1"},
			{"box.", dnsmessage.TypeAAAA, 0, ""},
			{"3.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, 0, "other.org."},
			{"9.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
			{"1.0.0.127.in-addr.arpa.", dnsmessage.TypePTR, dnsmessage.RCodeNameError, ""},
			{"not a name.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
			{"8.8.8.8.", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
			{".", dnsmessage.TypeA, dnsmessage.RCodeNameError, ""},
			{long, dnsmessage.TypeA, 0, "198.18.0.4"},
		} {
			if code, got := askName(t, p, row.name, row.kind); code != row.code || got != row.want {
				t.Errorf("%.20s %v: got %v %q, want %v %q", row.name, row.kind, code, got, row.code, row.want)
			}
		}
	})

	t.Run("ignores answers and rejects malformed questions", func(t *testing.T) {
		t.Parallel()
		p := newTestPolicy(t)
		answer := newQuestion(t, "example.org.", dnsmessage.TypeA)
		answer[2] |= 0x80
		if got := p.answerQuestion(answer); got != nil {
			t.Errorf("got an answer to an answer: %x", got)
		}
		two := newQuestion(t, "example.org.", dnsmessage.TypeA)
		two[5] = 2
		var m dnsmessage.Message
		if err := m.Unpack(p.answerQuestion(two)); err != nil || m.RCode != dnsmessage.RCodeFormatError {
			t.Errorf("got %v, %v", m.RCode, err)
		}
		if got := p.answerQuestion([]byte{1, 2, 3}); got != nil {
			t.Errorf("got %x", got)
		}
	})
}

func TestNameTableLimit(t *testing.T) {
	t.Parallel()
	var notices []string
	p := newTestPolicy(t)
	p.options.Notify = func(s string) { notices = append(notices, s) }
	seen := map[netip.Addr]string{}
	for i := range maxNames {
		name := fmt.Sprintf("h%d.example.org", i)
		a, ok := p.names.addressFor(name)
		if !ok || seen[a] != "" || !netip.MustParsePrefix("198.18.0.0/15").Contains(a) || p.names.nameOf(a) != name {
			t.Fatalf("%s: got %v %v, which belongs to %q", name, a, ok, seen[a])
		}
		seen[a] = name
	}
	for range 2 {
		if code, got := askName(t, p, "one.more.", dnsmessage.TypeA); code != dnsmessage.RCodeServerFailure || got != "" {
			t.Errorf("got %v %q", code, got)
		}
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "16384") {
		t.Errorf("got notices %q, want one", notices)
	}
	if _, got := askName(t, p, "h5.example.org.", dnsmessage.TypeA); got != "198.18.0.7" {
		t.Errorf("a known name got %q", got)
	}
}

func TestAddressKind(t *testing.T) {
	t.Parallel()
	for _, a := range []string{
		"127.0.0.1", "127.255.1.2", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200",
		"168.63.129.16", "192.0.0.192", "198.18.0.2", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "64:ff9b::7f00:1", "64:ff9b:1::1",
		"2002:7f00:1::", "2001:0:1::1", "::7f00:1", "100::1", "4000::1",
	} {
		if addressKind(netip.MustParseAddr(a)) == "" {
			t.Errorf("%s is considered ordinary", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "172.32.0.1", "100.128.0.1", "203.0.113.7", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"} {
		if kind := addressKind(netip.MustParseAddr(a)); kind != "" {
			t.Errorf("%s is an address %s", a, kind)
		}
	}
}

// The name is on the list, but the address that it leads to is checked when it is dialled.
func TestDialChecksAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := netip.MustParseAddrPort(l.Addr().String())
	to := destination{name: "localhost", port: at.Port()}
	p := newTestPolicy(t, "localhost")
	_, err = p.dialDestination(context.Background(), to)
	var refused *blockedAddressError
	if !errors.As(err, &refused) || errnoOf(err) != syscall.EACCES {
		t.Errorf("got %v, want a refusal", err)
	}
	if err := p.AllowHost(fmt.Sprintf("127.0.0.1:%d", at.Port()+1)); err != nil {
		t.Fatal(err)
	}
	if _, err = p.dialDestination(context.Background(), to); !errors.As(err, &refused) {
		t.Errorf("with another port of the address allowed, got %v", err)
	}
	if err := p.AllowHost("127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	c, err := p.dialDestination(context.Background(), to)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

func TestMayConnect(t *testing.T) {
	t.Parallel()
	p := newTestPolicy(t, "example.org:443", "*.cdn.net", "192.0.2.7:80")
	for _, row := range []struct {
		name string
		port uint16
		want bool
	}{
		{"example.org", 443, true}, {"example.org", 80, false}, {"www.example.org", 443, false}, {"badexample.org", 443, false},
		{"a.cdn.net", 1, true}, {"a.b.cdn.net", 2, true}, {"cdn.net", 443, false}, {"acdn.net", 443, false},
		{"192.0.2.7", 80, true}, {"192.0.2.7", 81, false}, {"192.0.2.8", 80, false}, {"::ffff:192.0.2.7", 80, true},
	} {
		l := destination{name: row.name, port: row.port}
		if a, err := netip.ParseAddr(row.name); err == nil {
			l = p.destinationAt(netip.AddrPortFrom(a, row.port))
		} else if a, ok := p.names.addressFor(row.name); ok {
			l = p.destinationAt(netip.AddrPortFrom(a, row.port))
		}
		if got := p.mayConnect(l); got != row.want {
			t.Errorf("%s: got %v, want %v", l, got, row.want)
		}
	}
}

func TestDestinationsLimit(t *testing.T) {
	t.Parallel()
	p := newTestPolicy(t)
	for i := range maxDestinations + 50 {
		p.recordUse(destination{name: fmt.Sprintf("h%d", i), port: 1}, func(r *DestinationUse) { r.Connections++ })
	}
	list := p.Destinations()
	i := slices.IndexFunc(list, func(r DestinationUse) bool { return r.Address == "others" })
	if len(list) != maxDestinations+1 || i < 0 || list[i].Connections != 50 {
		t.Errorf("got %d destinations", len(list))
	}
}

func TestExpandHosts(t *testing.T) {
	t.Parallel()
	root, home := t.TempDir(), t.TempDir()
	public := []string{"pypi.org:443", "files.pythonhosted.org:443", "registry.npmjs.org:443", "cloud.r-project.org:443", "cran.r-project.org:443", "cran.rstudio.com:443"}
	read := func(path string) []byte { text, _ := os.ReadFile(path); return text }
	system := ConfigSource{Root: root, Env: []string{"HOME=" + home}, ReadFile: read}
	if got := ExpandHosts([]string{"a.org", sandbox.PackageHosts}, system); !slices.Equal(got, append([]string{"a.org"}, public...)) {
		t.Errorf("without configuration: got %q", got)
	}
	for path, text := range map[string]string{
		root + "/etc/pip.conf":       "[global]\nindex-url = https://user:secret@pypi.corp.example:8443/simple\nproxy = http://proxy.corp.example\n",
		home + "/.config/uv/uv.toml": "[[index]]\nurl = \"https://test.pypi.org/simple\"\n",
		home + "/.npmrc":             "registry=https://npm.corp.example/\n//npm.corp.example/:_authToken=https://not.example/\n@us:registry=http://us.example\n",
		home + "/.Rprofile":          "options(repos = c(CRAN = 'https://cran.corp.example/cran'))\n# options(repos = 'https://old.example')\ncat('https://no.example')\n",
		home + "/project/.npmrc":     "registry=https://evil.example/\n",
		home + "/other.conf":         "[install]\nextra-index-url =\n    https://one.example/simple\n    https://[2001:db8::1]/simple\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	system.Env = append(system.Env, "PIP_CONFIG_FILE="+home+"/other.conf", "UV_DEFAULT_INDEX=mine=https://uv.example/simple", "NPM_CONFIG_USERCONFIG=project/.npmrc")
	got := ExpandHosts([]string{sandbox.PackageHosts}, system)
	slices.Sort(got)
	want := []string{"[2001:db8::1]:443", "cran.corp.example:443", "npm.corp.example:443", "one.example:443", "pypi.corp.example:8443", "test-files.pythonhosted.org:443", "test.pypi.org:443", "us.example:80", "uv.example:443"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(newQuestion(f, "example.org.", dnsmessage.TypeA))
	f.Add(newQuestion(f, "2.0.18.198.in-addr.arpa.", dnsmessage.TypePTR))
	f.Add(newQuestion(f, "a.localhost.", dnsmessage.TypeAAAA))
	f.Fuzz(func(t *testing.T, message []byte) {
		p, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		answer := p.answerQuestion(message)
		if answer == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil || !m.Response || len(m.Answers) > 1 {
			t.Fatalf("got %x (%v), which is not an answer", answer, err)
		}
		if p.answerQuestion(answer) != nil {
			t.Fatal("got an answer to an answer")
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("example.org", "198.18.0.2")
	f.Add("xn--a", "::ffff:198.18.0.3")
	f.Fuzz(func(t *testing.T, name, address string) {
		var n nameTable
		a, ok := n.addressFor(name)
		if !ok || n.nameOf(a) != name {
			t.Fatalf("%q: got %v, which belongs to %q", name, a, n.nameOf(a))
		}
		if other, err := netip.ParseAddr(address); err == nil && other.Unmap() != a && n.nameOf(other) != "" {
			t.Fatalf("%v stands for %q", other, n.nameOf(other))
		}
	})
}
