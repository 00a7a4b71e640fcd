package mcpserver

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
)

// clientSeparator follows the number of a client in the names of its sessions.
const clientSeparator = "-"

// ClientOfSession returns the client that owns a session, by the session's name in the
// supervisor. It returns "" if the session is shared or there is only one client.
func ClientOfSession(name string) string {
	client, _, found := strings.Cut(name, clientSeparator)
	digits := strings.TrimPrefix(client, "c")
	if _, err := strconv.ParseUint(digits, 10, 64); !found || err != nil || digits == client {
		return ""
	}
	return client
}

// newLocal returns the backend of a client whose sessions are in the supervisor of this process.
func newLocal(o *Options, c mcptransport.ServedClient) *backend.Local {
	local := &backend.Local{Supervisor: o.Supervisor, Specs: o.Specs, Author: o.Author, Prepares: len(o.With) > 0}
	switch { // one supervisor serves all clients
	case o.hostID != "":
		local.NamePrefix = fmt.Sprintf("mcp-%s-%d%s", o.hostID, c.Number, clientSeparator)
	case c.Number > 0:
		local.NamePrefix = fmt.Sprintf("c%d%s", c.Number, clientSeparator)
	}
	return local
}
