package osservice

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

const unitName = "turnstone"

// newSystemd installs two units. The socket exists from the login on. The first client starts the
// service; after it has exited because it was idle, the next client starts it again. Exit status 3
// means that another daemon uses the socket, and 2 a wrong command line: a restart would not help.
func newSystemd() Manager {
	return Manager{
		Name:    "systemd",
		command: "systemctl",
		files: func(p UserDirs, o *Options) []UnitFile {
			config := p.Config
			if config == "" {
				config = filepath.Join(p.Home, ".config")
			}
			dir := filepath.Join(config, "systemd", "user")
			socket, serve := o.Socket, []string{o.Executable, "serve", "--quiet"}
			if socket == "" {
				socket = "%t/turnstone/daemon.sock" // %t is XDG_RUNTIME_DIR
			} else {
				socket = escapeSpecifiers(socket)
			}
			if o.IdleTimeout > 0 {
				serve = append(serve, "--daemon-idle-timeout", o.IdleTimeout.String())
			}
			environment := ""
			for _, v := range o.environment() {
				environment += "Environment=" + quoteUnit(v[0]+"="+v[1]) + "\n"
			}
			for i, word := range serve {
				if i > 0 { // the manager expands variables in arguments
					word = strings.ReplaceAll(word, "$", "$$")
				}
				serve[i] = quoteUnit(word)
			}
			return []UnitFile{{filepath.Join(dir, unitName+".socket"), fmt.Sprintf(`# %s
[Unit]
Description=Socket of the language sessions of repl

[Socket]
ListenStream=%s
SocketMode=0600
DirectoryMode=0700
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
`, ownerMarker, socket)}, {filepath.Join(dir, unitName+".service"), fmt.Sprintf(`# %s
[Unit]
Description=Language sessions of repl
Requires=%s.socket
After=%[2]s.socket

[Service]
%sExecStart=%s
# 143 means SIGTERM. 0 means that it was idle: the next client starts it.
SuccessExitStatus=143
Restart=on-failure
# 2: a wrong command line. 3: another daemon serves the socket.
RestartPreventExitStatus=2 3
KillMode=mixed
TimeoutStopSec=30
`, ownerMarker, unitName, environment, strings.Join(serve, " "))}}
		},
		start: func(UserDirs, []UnitFile) [][]string {
			return [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", "--now", unitName + ".socket"}}
		},
		stop: func(UserDirs, []UnitFile) [][]string {
			return [][]string{{"systemctl", "--user", "disable", "--now", unitName + ".socket", unitName + ".service"}}
		},
		program:  regexp.MustCompile(`(?m)^ExecStart=("(?:[^"\\]|\\.)*"|\S+)`),
		unescape: unquoteUnit,
		reload:   [][]string{{"systemctl", "--user", "daemon-reload"}},
	}
}

// quoteUnit quotes s as one word, following systemd.syntax(7).
func quoteUnit(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(escapeSpecifiers(s))
	if strings.ContainsAny(s, " \t\"'\\;=") || s == "" {
		return `"` + s + `"`
	}
	return s
}

// unquoteUnit reverses quoteUnit.
func unquoteUnit(word string) string {
	if quoted, ok := strings.CutPrefix(word, `"`); ok {
		word = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(strings.TrimSuffix(quoted, `"`))
	}
	return strings.ReplaceAll(word, "%%", "%")
}

func escapeSpecifiers(s string) string { return strings.ReplaceAll(s, "%", "%%") }
