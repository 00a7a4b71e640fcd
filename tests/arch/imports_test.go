package arch

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport lists, for each package, the packages of this module that its source may import. A package
// that is not listed fails: decide where it belongs.
var mayImport = map[string]string{
	"ipc":                                      "",
	"timeline":                                 "internal/text timeline/internal/screen timeline/internal/redact timeline/internal/event timeline/internal/store",
	"timeline/internal/store":                  "internal/text timeline/internal/event timeline/internal/screen",
	"timeline/internal/event":                  "internal/text timeline/internal/screen timeline/internal/redact timeline/internal/describe",
	"timeline/internal/screen":                 "internal/text",
	"timeline/internal/redact":                 "internal/text",
	"timeline/internal/describe":               "internal/text",
	"timeline/render":                          "timeline timeline/internal/screen internal/text",
	"sandbox":                                  "internal/paths",
	"session":                                  "timeline internal/text internal/argschema timeline/render",
	"session/sessiontest":                      "session timeline workers timeline/render",
	"workers":                                  "internal/paths internal/text sandbox",
	"supervisor/internal/egressipc":            "",
	"supervisor/internal/egress":               "supervisor/internal/egressipc internal/environ sandbox internal/text",
	"supervisor/internal/privatedir":           "",
	"supervisor/internal/procinfo":             "",
	"supervisor/internal/keynotation":          "",
	"supervisor/internal/vt":                   "",
	"supervisor/internal/launch":               "supervisor/internal/egressipc internal/environ supervisor/internal/monitorproto supervisor/internal/pty supervisor/internal/proctree supervisor/internal/monitor supervisor/internal/winpipe supervisor/internal/sandbox/plan supervisor/internal/sandbox/linux",
	"supervisor/internal/monitorproto":         "supervisor/internal/sandbox/plan supervisor/internal/proctree",
	"supervisor/internal/sandbox/filestate":    "",
	"supervisor/internal/sandbox/gitconfig":    "internal/text",
	"supervisor/internal/sandbox/gitdir":       "internal/paths internal/systempath supervisor/internal/sandbox/filestate supervisor/internal/sandbox/linkpath sandbox",
	"supervisor/internal/sandbox/homedir":      "internal/paths internal/text supervisor/internal/sandbox/filestate supervisor/internal/sandbox/gitdir supervisor/internal/sandbox/linkpath supervisor/internal/sandbox/mountinfo supervisor/internal/sandbox/mountlist supervisor/internal/sandbox/redact",
	"supervisor/internal/sandbox/linkpath":     "internal/paths supervisor/internal/sandbox/filestate",
	"supervisor/internal/sandbox/broker":       "supervisor/internal/sandbox/egressclient supervisor/internal/sandbox/filestate supervisor/internal/sandbox/foldedname supervisor/internal/sandbox/nameguard supervisor/internal/sandbox/plan supervisor/internal/sandbox/seccomp supervisor/internal/sandbox/workerview supervisor/internal/egressipc supervisor/internal/sandbox/linkpath",
	"supervisor/internal/sandbox/egressclient": "supervisor/internal/egressipc",
	"supervisor/internal/sandbox/foldedname":   "internal/text supervisor/internal/sandbox/filestate",
	"supervisor/internal/sandbox/linux":        "internal/paths supervisor/internal/sandbox/broker supervisor/internal/sandbox/egressclient supervisor/internal/sandbox/filestate supervisor/internal/sandbox/nameguard supervisor/internal/sandbox/plan supervisor/internal/sandbox/seccomp supervisor/internal/sandbox/workerview supervisor/internal/sandbox/mountlist sandbox",
	"supervisor/internal/sandbox/mountinfo":    "internal/paths supervisor/internal/sandbox/linkpath",
	"supervisor/internal/sandbox/mountlist":    "",
	"supervisor/internal/sandbox/nameguard":    "internal/paths supervisor/internal/sandbox/filestate supervisor/internal/sandbox/foldedname supervisor/internal/sandbox/gitconfig supervisor/internal/sandbox/workerview supervisor/internal/sandbox/gitdir supervisor/internal/sandbox/linkpath supervisor/internal/sandbox/mountlist",
	"supervisor/internal/sandbox/workerview":   "",
	"supervisor/internal/sandbox/fileaccess":   "supervisor/internal/sandbox/mountlist supervisor/internal/sandbox/nameguard supervisor/internal/sandbox/plan supervisor/internal/sandbox/workerview",
	"supervisor/internal/workdir":              "session internal/text",
	"supervisor/internal/sandbox/plan":         "internal/shellword internal/paths supervisor/internal/sandbox/filestate supervisor/internal/sandbox/gitconfig supervisor/internal/sandbox/gitdir supervisor/internal/sandbox/homedir supervisor/internal/sandbox/linkpath supervisor/internal/sandbox/mountinfo supervisor/internal/sandbox/mountlist sandbox",
	"supervisor/internal/sandbox/redact":       "internal/text workers",
	"supervisor/internal/pty":                  "supervisor/internal/monitorproto supervisor/internal/procinfo",
	"supervisor/internal/proctree":             "supervisor/internal/procinfo",
	"supervisor/internal/winpipe":              "",
	"supervisor/internal/monitor":              "supervisor/internal/sandbox/linux supervisor/internal/monitorproto supervisor/internal/procinfo supervisor/internal/proctree supervisor/internal/winpipe internal/environ supervisor/internal/sandbox/plan",

	"supervisor/internal/sandbox/seccomp": "",

	"workers/internal/discovery": "workers internal/toolenv internal/environ",

	"workers/python":      "workers workers/internal/discovery internal/paths internal/atomicfile internal/userdirs internal/text",
	"workers/r":           "workers workers/internal/discovery internal/paths internal/atomicfile internal/text",
	"workers/conformance": "ipc workers internal/environ",
	"workers/templates":   "",

	"supervisor": "ipc timeline session workers internal/argschema internal/text supervisor/internal/egress supervisor/internal/launch supervisor/internal/monitorproto supervisor/internal/egressipc internal/paths internal/environ internal/userdirs supervisor/internal/proctree supervisor/internal/sandbox/filestate supervisor/internal/sandbox/plan supervisor/internal/sandbox/linux supervisor/internal/pty supervisor/internal/privatedir supervisor/internal/sandbox/homedir supervisor/internal/keynotation supervisor/internal/vt supervisor/internal/workdir supervisor/internal/sandbox/fileaccess sandbox",

	"internal/argschema":               "",
	"internal/namedpipe":               "",
	"internal/shellword":               "internal/text",
	"internal/paths":                   "",
	"internal/atomicfile":              "internal/text",
	"internal/environ":                 "",
	"internal/userdirs":                "",
	"internal/text":                    "",
	"internal/pngrepair":               "",
	"internal/systempath":              "",
	"internal/toolenv":                 "",
	"internal/jsonrpc2":                "",
	"internal/transportcmd":            "",
	"internal/peer":                    "internal/paths",
	"internal/daemonlock":              "internal/peer internal/atomicfile internal/userdirs",
	"client/internal/backoff":          "session",
	"client/internal/conn":             "session internal/jsonrpc2",
	"client/protocol":                  "ipc session timeline",
	"client/remote":                    "session internal/transportcmd",
	"client":                           "timeline session client/internal/backoff client/internal/conn client/remote internal/peer internal/namedpipe internal/jsonrpc2 internal/daemonlock client/protocol",
	"cmd/internal/metrics":             "session timeline internal/text",
	"cmd/internal/scriptblock":         "internal/text workers/python",
	"cmd/internal/daemon":              "sandbox session supervisor timeline workers cmd/internal/chartlib cmd/internal/metrics cmd/internal/rpcserver internal/peer internal/namedpipe internal/jsonrpc2 internal/daemonlock internal/paths internal/text client/protocol",
	"cmd/internal/rpcserver":           "internal/jsonrpc2 internal/text",
	"cmd/internal/lineedit":            "cmd/internal/lineedit/keys",
	"cmd/internal/lineedit/keys":       "",
	"cmd/internal/console":             "session timeline cmd/internal/lineedit internal/text internal/pngrepair cmd/internal/console/historyfile cmd/internal/console/ttymode cmd/internal/console/termmodes cmd/internal/console/keyrelay cmd/internal/lineedit/keys",
	"internal/mcpserver":               "session supervisor timeline workers internal/jsonrpc2 internal/mcptransport internal/mcpserver/backend internal/mcpserver/callorder internal/mcpserver/clientprofile internal/mcpserver/reply internal/text internal/mcpserver/elicitation internal/mcpserver/callerstate sandbox",
	"internal/httpauth":                "",
	"cmd/internal/chartlib":            "session",
	"cmd/internal/chartlib/generate":   "",
	"cmd/internal/webui":               "client client/protocol session timeline cmd/internal/chartlib cmd/internal/console internal/httpauth internal/text",
	"internal/mcptransport":            "internal/jsonrpc2 internal/httpauth internal/text",
	"internal/browserprompt":           "session",
	"cmd/internal/jupyter/kernelspec":  "internal/atomicfile internal/text",
	"cmd/internal/jupyter/wire":        "",
	"cmd/internal/jupyter/zmtp":        "",
	"cmd/internal/jupyter/comms":       "session timeline",
	"cmd/internal/jupyter/kernel":      "session timeline cmd/internal/jupyter/comms cmd/internal/jupyter/wire cmd/internal/jupyter/zmtp timeline/render",
	"cmd/internal/remote/install":      "internal/transportcmd internal/text",
	"cmd/internal/installsource":       "internal/toolenv internal/paths internal/shellword internal/text",
	"cmd/internal/install":             "cmd/internal/installsource internal/paths internal/atomicfile internal/userdirs internal/text",
	"cmd/internal/userconfig":          "session cmd/internal/install internal/securefile internal/transportcmd internal/text internal/userdirs",
	"cmd/internal/remote/bridge":       "client client/remote session client/protocol",
	"cmd/internal/pkginstall":          "internal/paths internal/environ internal/text",
	"cmd/internal/osservice":           "",
	"cmd/internal/stdio":               "",
	"internal/securefile":              "internal/atomicfile",
	"cmd/internal/export":              "timeline timeline/render",
	"cmd/internal/mcpclient":           "session supervisor timeline cmd/internal/install internal/shellword internal/text",
	"cmd/internal/cmdkit":              "internal/text internal/paths internal/atomicfile internal/userdirs",
	"cmd/internal/cmdflags":            "cmd/internal/cmdkit cmd/internal/scriptblock session supervisor workers cmd/internal/console cmd/internal/console/inputrc cmd/internal/install cmd/internal/languages cmd/internal/mcpclient cmd/internal/pkginstall cmd/internal/userconfig internal/paths internal/shellword timeline workers/python sandbox client/protocol internal/text",
	"cmd/internal/languages":           "cmd/internal/cmdkit cmd/internal/export cmd/internal/jupyter/kernelspec cmd/internal/lineedit cmd/internal/pkginstall cmd/internal/userconfig internal/environ internal/paths session workers workers/conformance workers/python workers/r internal/text",
	"cmd/internal/daemonlink":          "client cmd/internal/cmdflags cmd/internal/cmdkit cmd/internal/daemon cmd/internal/languages cmd/internal/remote/install cmd/internal/userconfig internal/daemonlock internal/securefile internal/shellword internal/transportcmd session timeline client/remote client/protocol internal/text",
	"cmd/internal/openbrowser":         "cmd/internal/cmdkit internal/atomicfile internal/httpauth internal/securefile",
	"cmd/internal/askpass":             "cmd/internal/cmdkit cmd/internal/openbrowser internal/browserprompt internal/environ client/remote",
	"cmd/internal/commands/worker":     "cmd/internal/cmdflags cmd/internal/cmdkit cmd/internal/languages workers workers/conformance workers/templates",
	"cmd/internal/commands/remote":     "client cmd/internal/cmdkit cmd/internal/daemonlink cmd/internal/remote/bridge cmd/internal/userconfig internal/daemonlock internal/text internal/transportcmd session client/remote client/protocol",
	"cmd/internal/commands/jupytercmd": "client cmd/internal/cmdflags cmd/internal/cmdkit cmd/internal/daemonlink cmd/internal/install cmd/internal/jupyter/kernel cmd/internal/jupyter/kernelspec cmd/internal/jupyter/kernelworker cmd/internal/jupyter/wire cmd/internal/languages session client/protocol",
	"cmd/internal/commands/agents":     "client cmd/internal/askpass cmd/internal/cmdflags cmd/internal/cmdkit cmd/internal/daemon cmd/internal/daemonlink cmd/internal/install cmd/internal/languages cmd/internal/mcpclient cmd/internal/userconfig internal/browserprompt internal/mcpserver internal/mcpserver/backend internal/mcptransport internal/securefile internal/shellword internal/text session supervisor timeline workers client/remote sandbox client/protocol",
	"cmd/internal/commands/diagnose":   "client client/protocol cmd/internal/cmdflags cmd/internal/cmdkit cmd/internal/console cmd/internal/daemonlink cmd/internal/install cmd/internal/installsource cmd/internal/languages cmd/internal/osservice internal/jsonrpc2 internal/paths internal/text internal/userdirs session supervisor timeline workers workers/conformance sandbox",
	"cmd/internal/commands/daemoncmd":  "client cmd/internal/cmdflags cmd/internal/cmdkit cmd/internal/daemon cmd/internal/daemonlink cmd/internal/install cmd/internal/installsource cmd/internal/languages cmd/internal/metrics cmd/internal/osservice cmd/internal/stdio internal/daemonlock internal/httpauth internal/userdirs session supervisor workers client/remote client/protocol",
	"cmd/internal/commands/run":        "client cmd/internal/cmdflags cmd/internal/cmdkit cmd/internal/console cmd/internal/daemonlink cmd/internal/languages internal/securefile session supervisor timeline timeline/render workers internal/text sandbox client/protocol",
	"cmd/internal/commands/sessions":   "client cmd/internal/cmdflags cmd/internal/cmdkit cmd/internal/console cmd/internal/daemonlink cmd/internal/export cmd/internal/languages cmd/internal/openbrowser cmd/internal/webui internal/browserprompt internal/httpauth internal/paths session supervisor timeline workers internal/text sandbox client/protocol",
	"cmd/internal/cli":                 "workers/templates cmd/internal/cmdkit client client/remote cmd/internal/daemon cmd/internal/userconfig cmd/internal/languages cmd/internal/daemonlink cmd/internal/askpass cmd/internal/commands/worker cmd/internal/commands/remote cmd/internal/commands/jupytercmd cmd/internal/commands/agents cmd/internal/commands/diagnose cmd/internal/commands/daemoncmd internal/text cmd/internal/commands/run cmd/internal/commands/sessions sandbox",
	"cmd/repl":                         "cmd/internal/cli supervisor",
	"clients/generate":                 "",
	"release":                          "",
	"otelturnstone":                    "session timeline",
	"cmd/internal/console/historyfile": "internal/paths internal/atomicfile",
	"cmd/internal/console/ttymode":     "",
	"cmd/internal/console/inputrc":     "",
	"cmd/internal/console/keyrelay":    "session internal/text",
	"cmd/internal/console/termmodes":   "",

	"cmd/internal/jupyter/kernelworker": "ipc cmd/internal/jupyter/kernelspec cmd/internal/jupyter/wire cmd/internal/jupyter/zmtp internal/text",
	"internal/mcpserver/clientprofile":  "internal/paths sandbox",
	"internal/mcpserver/callorder":      "",
	"internal/mcpserver/reply":          "session timeline timeline/render internal/systempath internal/text internal/pngrepair internal/mcpserver/clientprofile",
	"internal/mcpserver/callerstate":    "session timeline workers internal/paths internal/text internal/mcptransport internal/mcpserver/backend internal/mcpserver/callorder internal/mcpserver/clientprofile internal/mcpserver/elicitation internal/mcpserver/reply sandbox",
	"internal/mcpserver/elicitation":    "session timeline internal/text internal/browserprompt internal/mcptransport internal/mcpserver/backend internal/mcpserver/reply",
	"internal/mcpserver/backend":        "client session supervisor timeline workers sandbox client/protocol",

	"mcptools": "internal/mcpserver internal/mcptransport sandbox supervisor workers internal/text",

	"examples/far-plot":  "client client/protocol client/remote session",
	"examples/functions": "supervisor workers workers/python workers/r",
	"examples/grader":    "sandbox session supervisor workers workers/python",
	"examples/hello":     "session supervisor workers/python",
	"examples/live-page": "sandbox session supervisor timeline workers/python",
	"examples/mcptools":  "mcptools supervisor workers workers/python",

	"tests/arch":                    "",
	"tests/again":                   "",
	"tests/e2e":                     "session supervisor workers/python workers/r internal/environ client/protocol",
	"tests/python":                  "timeline workers/python session supervisor internal/testkit/sandboxcheck internal/testkit/sessionkit",
	"tests/r":                       "timeline workers/r session supervisor internal/testkit/sandboxcheck internal/testkit/sessionkit",
	"tests/bench":                   "session internal/jsonrpc2 ipc timeline workers/python workers/r supervisor internal/testkit/fakeworker",
	"tests/escapes":                 "session timeline workers/python supervisor internal/testkit/sandboxcheck internal/testkit/sessionkit",
	"internal/testkit/sandboxcheck": "internal/testkit/testexec sandbox",
	"tests/jupyterkernels":          "session timeline supervisor",
	"tests/templates":               "session timeline workers/conformance workers/templates supervisor",
	"tests/jupyter":                 "",
	"tests/limits":                  "session timeline workers/python workers/r supervisor internal/testkit/sandboxcheck internal/testkit/sessionkit",
	"tests/clients":                 "",
	"tests/programs":                "",
	"tests/frameworks":              "",
	"internal/testkit/fakeworker":   "ipc workers internal/testkit/sandboxcheck internal/testkit/testexec internal/testkit/testmain",
	"internal/testkit/rawworker":    "ipc workers internal/environ",
	"internal/testkit/sessionkit":   "session timeline workers supervisor internal/testkit/sandboxcheck internal/testkit/wait",
	"tests/webui":                   "client session timeline internal/peer internal/daemonlock internal/testkit/sandboxcheck client/protocol",
	"tests/remote":                  "session client timeline client/protocol",
	"internal/testkit/testexec":     "",
	"internal/testkit/replbin":      "",
	"internal/testkit/wait":         "",
	"internal/testkit/wheel":        "",
	"internal/testkit/promtext":     "",
	"internal/testkit/testmain":     "internal/testkit/replbin",
	"internal/testkit/networks":     "",
	"internal/testkit/owners":       "",
	"internal/testkit/faultdial":    "session client",
	"internal/testkit/interpreters": "",
	"internal/testkit/kernelspecs":  "",
}

// reasons explains why a tempting import is refused.
var reasons = []struct{ from, to, because string }{
	{"supervisor", "workers/", "behaviour differs by a worker's capability, never by its language"},
	{"cmd/internal/console", "workers/", "only cmd/internal/languages knows them; front ends get a Spec"},
	{"internal/mcpserver", "workers/", "only cmd/internal/languages knows them; front ends get a Spec"},
	{"internal/mcptransport", "", "it carries messages without knowing their meaning"},
	{"workers/", "supervisor", "a Spec is data: starting it is the supervisor's part"},
	{"internal/jsonrpc2", "", "it carries messages without knowing their meaning"},
	{"internal/namedpipe", "", "a pipe carries bytes without knowing who sends them"},
	{"client/internal/conn", "client", "a connection does not know who creates the next one"},
	{"ipc", "", "the protocol has no dependencies, so that a worker in Go can use it"},
	{"session", "", "the interface of a session does not depend on its implementations"},
	{"timeline", "", "the log knows events, but not their sources"},
	{"supervisor/internal/procinfo", "", "the process table does not know workers"},
	{"supervisor/internal/monitorproto", "", "both sides import this protocol, and neither is below the other"},
	{"supervisor/internal/pty", "", "a terminal does not know which processes start or end on it"},
	{"supervisor/internal/proctree", "", "it knows processes, but not workers or their messages"},
	{"supervisor/internal/launch", "", "platform code knows processes and terminals, not sessions"},
	{"", "ipc", "only the supervisor and workers speak the worker protocol"},
	{"", "cmd/", "commands are built on the library, not the other way round"},
	{"", "tests/", "only tests may import test packages"},
}

func refusal(from, to string) string {
	for _, r := range reasons {
		if strings.HasPrefix(from, r.from) && strings.HasPrefix(to, r.to) {
			return r.because
		}
	}
	return "it is not listed in mayImport"
}

func TestImports(t *testing.T) {
	t.Parallel()

	t.Run("point one way", func(t *testing.T) {
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
	})

	t.Run("list only packages that exist", func(t *testing.T) {
		t.Parallel()
		tr := load(t)
		for name := range mayImport {
			if !slices.ContainsFunc(tr.pkgs, func(p *pkg) bool { return p.name == name }) {
				t.Errorf("mayImport lists %s, which does not exist", name)
			}
		}
	})

	// Only the package that wraps a dependency knows it, so that it can be replaced there. The
	// conformance suite opens terminals itself, because it starts workers without a supervisor. Tests
	// may use any.
	t.Run("of dependencies are where these are wrapped", func(t *testing.T) {
		t.Parallel()
		owners := map[string]string{
			"github.com/modelcontextprotocol/go-sdk": "internal/mcpserver internal/mcpserver/elicitation internal/mcpserver/reply internal/mcptransport cmd/internal/mcpclient mcptools examples/mcptools",
			"github.com/UserExistsError/conpty":      "supervisor/internal/pty",
			"github.com/creack/pty":                  "supervisor/internal/pty workers/conformance",
			"github.com/go-zeromq/zmq4":              "cmd/internal/jupyter/zmtp",
			"github.com/vmihailenco/msgpack":         "ipc",
			"golang.org/x/image":                     "cmd/internal/webui internal/mcpserver/reply",
			"golang.org/x/net":                       "supervisor/internal/egress cmd/internal/webui cmd/internal/commands/daemoncmd internal/mcptransport",
			"github.com/chromedp/chromedp":           "tests/webui",
			"github.com/chromedp/cdproto":            "tests/webui",
			"github.com/rivo/uniseg":                 "cmd/internal/lineedit supervisor/internal/vt",
			"github.com/tailscale/hujson":            "cmd/internal/install",
			"github.com/pelletier/go-toml":           "cmd/internal/install cmd/internal/scriptblock cmd/internal/userconfig",
			"github.com/kballard/go-shellquote":      "cmd/internal/languages internal/transportcmd supervisor/internal/sandbox/plan",
			"github.com/goreleaser/nfpm":             "release",
			"github.com/CycloneDX/cyclonedx-go":      "release",
			"go.opentelemetry.io/otel":               "otelturnstone",
		}
		tr := load(t)
		for _, p := range tr.pkgs {
			for _, f := range p.files {
				for _, spec := range f.ast.Imports {
					for dependency, owner := range owners {
						path := strings.Trim(spec.Path.Value, `"`)
						if f.test || isTestCode(p.name) || slices.Contains(strings.Fields(owner), p.name) {
							continue
						}
						if path == dependency || strings.HasPrefix(path, dependency+"/") {
							t.Errorf("%s: only %s may import %s", tr.at(spec), owner, dependency)
						}
					}
				}
			}
		}
	})
}
