package cmdflags

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/install"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpclient"
)

// A sourceList is the value of --mcp-servers. Since a path may contain a comma, only names of
// clients can be separated by one.
type sourceList []string

func (l *sourceList) String() string { return strings.Join(*l, ",") }

// Values returns the sources.
func (l *sourceList) Values() []string { return slices.Clone(*l) }

func (l *sourceList) Set(value string) error {
	parts := strings.Split(value, ",")
	if !slices.ContainsFunc(parts, func(one string) bool { return !slices.Contains(mcpclient.ClientNames(), one) }) {
		*l = append(*l, parts...)
	} else {
		*l = append(*l, value)
	}
	return nil
}

// ToolServerFlags holds the user's choice of the MCP servers whose tools code may call.
type ToolServerFlags struct {
	Sources     sourceList
	allow, deny cmdkit.CommaList
}

// AddFlags adds the flags that choose servers, and which of their tools may be called.
func (m *ToolServerFlags) AddFlags(f *flag.FlagSet) {
	f.Var(&m.Sources, "mcp-servers", "`FILE` let code call the tools of the MCP servers in this file of mcpServers, or of those you approved in claude, codex, vscode or cursor; may be repeated")
	f.Var(&m.allow, "allow-tool", "`TOOL` a tool of a server that code may call without asking: github.search_issues, or 'github.*' for all but destructive ones; may be repeated")
	f.Var(&m.deny, "deny-tool", "`TOOL` a tool of a server that code may not call, or a pattern with *; may be repeated")
}

// ResolveSources rejects invalid values and makes the files absolute.
func (m *ToolServerFlags) ResolveSources() error {
	if len(m.Sources) == 0 && len(m.allow)+len(m.deny) > 0 {
		return cmdkit.UsageErrorf("--allow-tool and --deny-tool need --mcp-servers")
	}
	for _, pattern := range slices.Concat(m.allow, m.deny) {
		if _, err := path.Match(pattern, ""); err != nil || !strings.Contains(pattern, ".") && pattern != "*" {
			return cmdkit.UsageErrorf("%q is not the name of a tool; write github.search_issues or 'github.*'", pattern)
		}
	}
	for i, source := range m.Sources {
		if source == "" {
			return cmdkit.UsageErrorf("--mcp-servers needs a FILE, or one of %s", strings.Join(mcpclient.ClientNames(), ", "))
		}
		if slices.Contains(mcpclient.ClientNames(), source) {
			continue
		}
		absolute, err := filepath.Abs(source)
		if err != nil {
			return err
		}
		m.Sources[i] = absolute
	}
	return nil
}

// NewToolSet returns the servers without starting them. [mcpclient.Options] explains callerOf. It
// prints a line for each server that is left out.
func (m *ToolServerFlags) NewToolSet(notes io.Writer, logger *slog.Logger, callerOf func(string) string) (*mcpclient.ServerSet, error) {
	o := mcpclient.Options{CallerOf: callerOf, Allow: m.allow, Deny: m.deny, Version: cmdkit.ProgramVersion(), Logger: logger}
	if len(m.Sources) == 0 {
		return mcpclient.NewServerSet(o), nil
	}
	dirs, err := install.FindConfigDirs()
	if err != nil {
		return nil, err
	}
	for _, source := range m.Sources {
		list, skipped, err := mcpclient.LoadServers(source, dirs)
		if err != nil {
			return nil, cmdkit.UsageErrorf("%v", err)
		}
		for _, line := range skipped {
			fmt.Fprintln(notes, "repl:", line)
		}
		o.Servers = append(o.Servers, list...)
	}
	var names []string
	for _, one := range o.Servers {
		if slices.Contains(names, one.Group) {
			return nil, cmdkit.UsageErrorf("--mcp-servers: two servers are called %s; rename one", one.Group)
		}
		names = append(names, one.Group)
	}
	return mcpclient.NewServerSet(o), nil
}
