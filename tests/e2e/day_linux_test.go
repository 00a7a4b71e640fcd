package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/testkit/networks"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/wheel"
)

// ownNetworkEnv marks a process that has its own network.
const ownNetworkEnv = "E2E_ALONE"

// runInOwnNetwork runs the test in a process whose network is only a loopback, which these host
// names resolve to. It returns false in the process that only waits.
func runInOwnNetwork(t *testing.T, names ...string) bool {
	t.Helper()
	t.Parallel()
	if !sandboxcheck.RerunInNamespaces(t, ownNetworkEnv+"=1", unix.CLONE_NEWNET|unix.CLONE_NEWNS, unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_NET_BIND_SERVICE) {
		return false
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost "+strings.Join(names, " ")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := networks.BringUp("lo"); err != nil {
		t.Fatal(err)
	}
	return true
}

// startRegistry serves one package for Python and one for R over TLS. It returns the file with the
// authority's certificate.
func startRegistry(t *testing.T, dir string) (authority string) {
	t.Helper()
	binary, source := wheel.Build(t, "dayprobe", "answer = 42\n"), newSourcePackage(t)
	mux := http.NewServeMux()
	serve := func(path string, data []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) })
	}
	serve("pypi.test/simple/dayprobe/{$}", []byte(`<!doctype html><a href="/files/dayprobe-1.0-py3-none-any.whl">dayprobe-1.0-py3-none-any.whl</a>`))
	serve("pypi.test/files/dayprobe-1.0-py3-none-any.whl", binary)
	serve("cran.test/src/contrib/PACKAGES", []byte("Package: dayprobe\nVersion: 1.0\n"))
	serve("cran.test/src/contrib/dayprobe_1.0.tar.gz", source)
	serve("cran.test/data.csv", []byte("x\n42\n"))
	server := httptest.NewUnstartedServer(mux)
	listener, err := net.Listen("tcp", "127.0.0.1:443")
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Listener.Close()
	server.Listener = listener
	certificate, root := newCertificate(t, "pypi.test", "cran.test")
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	authority = filepath.Join(dir, "authority.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})
	if err := os.WriteFile(authority, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return authority
}

func newSourcePackage(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{
		"DESCRIPTION": "Package: dayprobe\nVersion: 1.0\nTitle: P\nDescription: P.\nAuthor: P\nMaintainer: P <p@example.org>\nLicense: GPL-2\n",
		"NAMESPACE":   "export(answer)\n",
		"R/p.R":       "answer <- function() 42\n",
	} {
		err := w.WriteHeader(&tar.Header{Name: "dayprobe/" + name, Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []interface{ Close() error }{w, z} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// An agentTask is a task of an agent, with the expected end of the reply.
type agentTask struct {
	name, lang, code, want string
	registry               bool   // the task needs the registry, or asks for it
	host                   string // the host for which it asks
	needs                  string // a program, or "python:MODULE"
}

// workdayTasks are the tasks of a day in a project. UV stands for the program uv.
var workdayTasks = []agentTask{
	{"helper", "python", `import os, subprocess, sys
def sh(*words):
    r = subprocess.run(words, capture_output=True, text=True)
    return r.stdout.strip() if r.returncode == 0 else f"{words}: {r.returncode} {r.stdout} {r.stderr}"`, "", true, "", ""},
	{"clone", "python", `sh("git", "clone", "-q", "UPSTREAM", "calc")`, "''", false, "", ""},
	{"edit", "python", `with open("calc/calc.py", "a") as f: f.write("\ndef double(x): return 2 * x\n")
with open("calc/test_calc.py", "w") as f: f.write("import unittest, calc\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(calc.double(21), 42)\n")`, "", false, "", ""},
	{"test", "python", `os.chdir("calc"); sh(sys.executable, "-m", "unittest", "-q")`, "''", false, "", ""},
	{"commit", "python", `sh("git", "add", "-A"), sh("git", "commit", "-q", "-m", "double"), sh("git", "log", "--oneline").count("\n")`, "('', '', 1)", false, "", ""},
	{"branch", "python", `sh("git", "switch", "-q", "-c", "more"), sh("git", "gc", "-q"), sh("git", "status", "--short")`, "('', '', '')", false, "", ""},
	{"environment", "python", `sh(sys.executable, "-m", "venv", ".venv")`, "''", true, "", "python:ensurepip"},
	{"pip", "python", `sh(".venv/bin/pip", "install", "-q", "--no-cache-dir", "--disable-pip-version-check", "dayprobe"), sh(".venv/bin/python", "-c", "import dayprobe; print(dayprobe.answer)")`, "('', '42')", true, "pypi.test", "python:ensurepip"},
	{"uv", "python", `sh("UV", "venv", "-q", "--python", sys.executable, "uvenv"), sh("UV", "pip", "install", "-q", "--python", "uvenv/bin/python", "dayprobe"), sh("uvenv/bin/python", "-c", "import dayprobe; print(dayprobe.answer)")`, "('', '', '42')", true, "pypi.test", "UV"},
	{"plot", "python", `import matplotlib; matplotlib.use("agg")
import matplotlib.pyplot as plt
plt.plot([1, 2]); plt.savefig("plot.png"); plt.close(); os.path.getsize("plot.png") > 1000`, "True", false, "", "python:matplotlib"},
	{"server", "python", `import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
server.RequestHandlerClass.log_message = lambda *a: None
threading.Thread(target=server.serve_forever, daemon=True).start()
len(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/calc.py").read()) == os.path.getsize("calc.py")`, "True", false, "", ""},
	{"forkserver", "python", `import multiprocessing
with multiprocessing.get_context("forkserver").Pool(2) as pool: print(pool.map(abs, range(-3, 0)))`, "[3, 2, 1]", false, "", ""},
	{"training", "python", `import numpy as np
x = np.linspace(-1, 1, 50); y = 3 * x + 1; w = b = 0.0
for step in range(500):
    e = w * x + b - y; w -= .5 * (e * x).mean(); b -= .5 * e.mean()
np.save("weights.npy", [w, b]); [round(float(v), 3) for v in np.load("weights.npy")]`, "[3.0, 1.0]", false, "", "python:numpy"},
	{"install.packages", "r", `install.packages("dayprobe", quiet = TRUE); dayprobe::answer()`, "[1] 42", true, "cran.test", "/usr/bin/R"},
	{"download.file", "r", `download.file("https://cran.test/data.csv", "data.csv", quiet = TRUE); read.csv("data.csv")$x`, "[1] 42", true, "cran.test", "/usr/bin/R"},
	{"R plot", "r", `png("r.png", type = "cairo"); plot(1); invisible(dev.off()); file.exists("r.png")`, "[1] TRUE", false, "", "/usr/bin/R"},
}

func TestWorkday_AsksForRegistries(t *testing.T) {
	if !runInOwnNetwork(t, "pypi.test", "cran.test") {
		return
	}
	for _, program := range []string{"/usr/bin/python3", "/usr/bin/git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	base := sandboxcheck.TempDir(t)
	authority := startRegistry(t, base)
	uv := filepath.Join(os.Getenv("HOME"), ".cache", "turnstone", "uv", "bin", "uv")
	if found, err := exec.LookPath("uv"); err == nil {
		uv = found
	}
	upstream := filepath.Join(base, "upstream")
	mustRun(t, "git", "init", "-q", upstream)
	if err := os.WriteFile(filepath.Join(upstream, "calc.py"), []byte("def one(): return 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "git", "-C", upstream, "add", "-A")
	mustRun(t, "git", "-C", upstream, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "one")
	for _, row := range []struct {
		name  string
		args  []string
		whole bool // or only the registry tasks
		asks  bool
	}{
		{"defaults", nil, true, true},
		{"packages", []string{"--allow-host", "packages"}, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := newProjectHome(t, filepath.Join(base, row.name), authority)
			// The registries are on this loopback. A name may resolve to it only if the address is
			// allowed, too.
			a := h.newMCPClientWithUser(t, append([]string{"--python", "/usr/bin/python3", "--allow-host", "127.0.0.1"}, row.args...)...)
			a.answerQuestion = func(question string) string { t.Logf("asked: %s", question); return "allow in this session" }
			hosts := map[string]bool{}
			for _, j := range workdayTasks {
				if !row.whole && !j.registry {
					continue
				}
				t.Run(j.name, func(t *testing.T) {
					if lacks := missingRequirement(strings.ReplaceAll(j.needs, "UV", uv)); lacks != "" {
						t.Skip(lacks)
					}
					defer func(of *testing.T) { a.t = of }(a.t)
					a.t = t
					if row.asks && j.host != "" {
						hosts[j.host] = true
					}
					code := strings.NewReplacer("UPSTREAM", upstream, "UV", uv).Replace(j.code)
					got := a.callRepl(code, "lang", j.lang)
					for strings.Contains(got, "[running ") { // a call waits for at most 50 s
						got = a.callTool("repl_output", map[string]any{"session": j.lang})
					}
					if got = strings.TrimSuffix(got, "[done]"); !strings.HasSuffix(strings.TrimSpace(got), j.want) || strings.Contains(got, "the sandbox refused") || strings.Contains(got, "Error") {
						t.Errorf("got %q, want %q", got, j.want)
					}
				})
			}
			if a.askedCount != len(hosts) {
				t.Errorf("a user had to answer %d times, want %d", a.askedCount, len(hosts))
			}
			t.Logf("%d answers of a user", a.askedCount)
		})
	}
}

// missingRequirement returns what a task lacks on this machine, or "".
func missingRequirement(need string) string {
	const python = "/usr/bin/python3"
	if module, ok := strings.CutPrefix(need, "python:"); ok {
		if exec.Command(python, "-c", "import "+module).Run() != nil {
			return python + " has no module " + module
		}
		return ""
	}
	if _, err := exec.LookPath(need); need != "" && err != nil {
		return need + " is not installed"
	}
	return ""
}

func mustRun(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
}

// newProjectHome returns a home with a project whose tools know the registries.
func newProjectHome(t *testing.T, dir, authority string) home {
	t.Helper()
	h := newHome(t)
	h.dir = filepath.Join(dir, "project")
	for name, text := range map[string]string{
		"project/README":       "",
		".config/pip/pip.conf": "[global]\nindex-url = https://pypi.test/simple\n",
		".config/uv/uv.toml":   "[[index]]\nurl = \"https://pypi.test/simple\"\ndefault = true\n",
		".Rprofile":            "options(repos = c(CRAN = \"https://cran.test\"))\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h.env = append(h.env, "HOME="+dir, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_STATE_HOME=",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
		"PATH=/usr/bin:/bin", "PIP_FIND_LINKS=", "PIP_CERT="+authority, "REQUESTS_CA_BUNDLE="+authority, "SSL_CERT_FILE="+authority, "CURL_CA_BUNDLE="+authority)
	return h
}

// newMCPClientWithUser starts repl mcp for a client whose user can be asked.
func (h home) newMCPClientWithUser(t *testing.T, args ...string) *mcpClient {
	t.Helper()
	return startMCPClientWith(t, h.command(t, append([]string{"mcp"}, args...)...), map[string]any{"elicitation": map[string]any{}}, func() {})
}

// newCertificate returns a certificate for these names, and the certificate of its authority.
func newCertificate(t *testing.T, names ...string) (leaf tls.Certificate, authority []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	site := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: names[0]}, NotBefore: root.NotBefore, NotAfter: root.NotAfter, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	authority, err = x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := x509.CreateCertificate(rand.Reader, site, root, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, authority
}
