package arch

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport lists, for each package, the packages of this module that its
// source may import. A package that is not listed fails: decide where it belongs.
var mayImport = map[string]string{
	"ipc":                         "",
	"timeline":                    "",
	"session":                     "timeline",
	"session/sessiontest":         "session timeline workers",
	"workers":                     "",
	"supervisor/internal/outlet":  "",
	"supervisor/internal/egress":  "workers supervisor/internal/outlet",
	"supervisor/internal/confine": "workers internal/shellword internal/systempath supervisor/internal/outlet",
	"supervisor/internal/host":    "supervisor/internal/confine supervisor/internal/outlet",

	"workers/internal/discovery": "workers internal/toolenv",

	"workers/python":      "workers workers/internal/discovery",
	"workers/r":           "workers workers/internal/discovery",
	"workers/conformance": "ipc workers",
	"workers/templates":   "",

	"supervisor": "ipc timeline session workers internal/spelling supervisor/internal/confine supervisor/internal/egress supervisor/internal/host supervisor/internal/outlet",

	"internal/pipe":               "",
	"internal/shellword":          "timeline",
	"internal/spelling":           "",
	"internal/systempath":         "",
	"internal/toolenv":            "",
	"internal/jsonline":           "",
	"internal/prefix":             "",
	"internal/peer":               "",
	"internal/registry":           "internal/peer",
	"client":                      "timeline session internal/peer internal/pipe internal/jsonline internal/prefix internal/registry",
	"cmd/internal/daemon":         "session supervisor timeline workers client cmd/internal/rpc internal/peer internal/pipe internal/jsonline internal/registry",
	"cmd/internal/rpc":            "internal/jsonline",
	"cmd/internal/edit":           "",
	"cmd/internal/terminal":       "session timeline cmd/internal/edit",
	"cmd/internal/mcpserver":      "session supervisor timeline workers internal/jsonline internal/systempath cmd/internal/askpage cmd/internal/mcpwire",
	"cmd/internal/gate":           "",
	"cmd/internal/page":           "client session timeline cmd/internal/gate cmd/internal/terminal",
	"cmd/internal/mcpwire":        "internal/jsonline cmd/internal/gate",
	"cmd/internal/askpage":        "session",
	"cmd/internal/jupyter/specs":  "",
	"cmd/internal/jupyter/wire":   "",
	"cmd/internal/jupyter/zsock":  "",
	"cmd/internal/jupyter/kernel": "session timeline client cmd/internal/jupyter/wire cmd/internal/jupyter/zsock",
	"cmd/internal/bootstrap":      "internal/prefix",
	"cmd/internal/origin":         "internal/toolenv",
	"cmd/internal/install":        "cmd/internal/origin",
	"cmd/internal/kept":           "session cmd/internal/install cmd/internal/private internal/prefix internal/spelling",
	"cmd/internal/dial":           "client session",
	"cmd/internal/packages":       "",
	"cmd/internal/service":        "",
	"cmd/internal/private":        "",
	"cmd/internal/export":         "timeline",
	"cmd/internal/tools":          "session supervisor timeline cmd/internal/install internal/shellword",
	"cmd/internal/cli": "session supervisor timeline workers workers/python workers/r workers/conformance workers/templates " +
		"client cmd/internal/askpage cmd/internal/gate cmd/internal/page cmd/internal/terminal cmd/internal/edit cmd/internal/mcpserver cmd/internal/mcpwire cmd/internal/install cmd/internal/daemon " +
		"cmd/internal/packages cmd/internal/service cmd/internal/export cmd/internal/private cmd/internal/kept cmd/internal/tools cmd/internal/jupyter/kernel cmd/internal/jupyter/specs cmd/internal/jupyter/wire cmd/internal/jupyter/worker cmd/internal/origin cmd/internal/dial cmd/internal/bootstrap internal/jsonline internal/prefix internal/registry internal/shellword internal/spelling",
	"cmd/repl":         "cmd/internal/cli supervisor",
	"clients/generate": "",
	"release":          "",

	"cmd/internal/jupyter/worker": "ipc cmd/internal/jupyter/specs cmd/internal/jupyter/wire cmd/internal/jupyter/zsock",

	"examples/functions": "supervisor workers workers/python workers/r",

	"tests/arch":       "",
	"tests/again":      "",
	"tests/e2e":        "session supervisor workers/python workers/r",
	"tests/python":     "timeline workers workers/python session supervisor tests/confined tests/drive",
	"tests/r":          "timeline workers workers/r session supervisor tests/confined tests/drive",
	"tests/bench":      "session ipc timeline workers workers/python workers/r supervisor tests/fakeworker",
	"tests/escapes":    "session timeline workers workers/python supervisor tests/confined tests/drive",
	"tests/confined":   "workers",
	"tests/kernels":    "session timeline workers supervisor",
	"tests/templates":  "session timeline workers workers/conformance workers/templates supervisor",
	"tests/jupyter":    "",
	"tests/limits":     "session timeline workers workers/python workers/r supervisor tests/confined tests/drive",
	"tests/clients":    "",
	"tests/fakeworker": "ipc workers tests/confined tests/programs",
	"tests/rawworker":  "ipc workers",
	"tests/drive":      "session timeline workers supervisor tests/confined",
	"tests/page":       "client session timeline internal/peer internal/registry tests/confined tests/waits",
	"tests/places":     "session client timeline tests/waits",
	"tests/waits":      "",
	"tests/programs":   "",
	"tests/networks":   "",
	"tests/owners":     "",
	"tests/states":     "",
	"tests/ways":       "session client",
	"tests/pythons":    "",
}

// reasons says why an import that looks handy is refused.
var reasons = []struct{ from, to, because string }{
	{"supervisor", "workers/", "behaviour differs by a worker's capability, never by its language"},
	{"cmd/internal/terminal", "workers/", "only cli knows the languages; front ends are handed a Spec"},
	{"cmd/internal/mcpserver", "workers/", "only cli knows the languages; front ends are handed a Spec"},
	{"cmd/internal/mcpwire", "", "it carries messages, and knows nothing of what they are about"},
	{"workers/", "supervisor", "a Spec is data: starting it is the supervisor's part"},
	{"internal/jsonline", "", "it carries messages, and knows nothing of what they are about"},
	{"internal/pipe", "", "a pipe knows bytes, and nothing of who speaks"},
	{"ipc", "", "the protocol stands alone, so that a worker in Go can use it"},
	{"session", "", "what a session is for its caller depends on nobody who makes one"},
	{"timeline", "", "the log knows events and nothing of who makes them"},
	{"supervisor/internal/host", "", "platform code knows processes and terminals, not sessions"},
	{"", "ipc", "only the supervisor and workers speak the worker protocol"},
	{"", "cmd/", "commands are built on the library, not the other way round"},
	{"", "tests/", "what tests need stays in tests"},
}

func refusal(from, to string) string {
	for _, r := range reasons {
		if strings.HasPrefix(from, r.from) && strings.HasPrefix(to, r.to) {
			return r.because
		}
	}
	return "it is not listed in mayImport"
}

func TestImports_PointOneWay(t *testing.T) {
	t.Parallel()
	tr := load(t)
	for _, p := range tr.pkgs {
		list, listed := mayImport[p.name]
		if !listed {
			t.Errorf("package %s is not listed in mayImport: decide what it may import", p.name)
			continue
		}
		allowed := strings.Fields(list)
		for _, f := range p.files {
			for _, spec := range f.ast.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				to, ours := strings.CutPrefix(path, module+"/")
				if !ours || to == p.name || slices.Contains(allowed, to) {
					continue
				}
				if f.test && !strings.HasPrefix(to, "cmd/") {
					continue // a test may look at its package from above
				}
				t.Errorf("%s: %s must not import %s: %s", tr.at(spec), p.name, to, refusal(p.name, to))
			}
		}
	}
}

func TestImports_EveryListedPackageExists(t *testing.T) {
	t.Parallel()
	tr := load(t)
	for name := range mayImport {
		if !slices.ContainsFunc(tr.pkgs, func(p *pkg) bool { return p.name == name }) {
			t.Errorf("mayImport lists %s, which is not there", name)
		}
	}
}

// A dependency is known to the package that wraps it, so that it can be replaced
// there; the conformance suite also opens terminals, because it starts workers
// without a supervisor. Tests may use any.
func TestImports_DependenciesStayWhereTheyAreWrapped(t *testing.T) {
	t.Parallel()
	owners := map[string]string{
		"github.com/modelcontextprotocol/go-sdk": "cmd/internal/mcpserver cmd/internal/mcpwire cmd/internal/tools",
		"github.com/UserExistsError/conpty":      "supervisor/internal/host",
		"github.com/creack/pty":                  "supervisor/internal/host workers/conformance",
		"github.com/go-zeromq/zmq4":              "cmd/internal/jupyter/zsock",
		"github.com/vmihailenco/msgpack":         "ipc",
		"golang.org/x/image":                     "cmd/internal/page cmd/internal/mcpserver",
		"golang.org/x/net":                       "supervisor/internal/egress",
		"github.com/chromedp/chromedp":           "tests/page",
		"github.com/chromedp/cdproto":            "tests/page",
		"github.com/rivo/uniseg":                 "cmd/internal/edit",
		"github.com/tailscale/hujson":            "cmd/internal/install",
		"github.com/pelletier/go-toml":           "cmd/internal/install cmd/internal/kept",
		"github.com/kballard/go-shellquote":      "cmd/internal/cli internal/prefix supervisor/internal/confine",
		"github.com/goreleaser/nfpm":             "release",
		"github.com/CycloneDX/cyclonedx-go":      "release",
	}
	tr := load(t)
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			for _, spec := range f.ast.Imports {
				for dependency, owner := range owners {
					path := strings.Trim(spec.Path.Value, `"`)
					if f.test || strings.HasPrefix(p.name, "tests/") || slices.Contains(strings.Fields(owner), p.name) {
						continue
					}
					if path == dependency || strings.HasPrefix(path, dependency+"/") {
						t.Errorf("%s: only %s may import %s", tr.at(spec), owner, dependency)
					}
				}
			}
		}
	}
}
