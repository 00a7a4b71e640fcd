package service

import (
	"fmt"
	"html"
	"path/filepath"
	"strconv"
	"strings"
)

const label = "com.github.turnstone-repl.turnstone"

// launchd has one agent, which starts with the login and is not started again when it ends.
// launchd could also pass a socket, but only by a call of its own C library, so the daemon
// makes its socket itself.
func launchd() Manager {
	domain := func(p Places) string { return "gui/" + strconv.Itoa(p.UID) }
	return Manager{
		Name:    "launchd",
		command: "launchctl",
		Note:    "launchd starts it at the login, not with its first client: it has no idle exit",
		files: func(p Places, o *Options) []File {
			serve := []string{o.Executable, "serve", "--quiet"}
			if o.Socket != "" {
				serve = append(serve, "--socket", o.Socket)
			}
			var arguments strings.Builder
			for _, a := range serve {
				fmt.Fprintf(&arguments, "\t\t<string>%s</string>\n", escapeXML(a))
			}
			environment := ""
			for _, v := range o.variables() {
				environment += fmt.Sprintf("\t\t<key>%s</key>\n\t\t<string>%s</string>\n", v[0], escapeXML(v[1]))
			}
			if environment != "" {
				environment = "\t<key>EnvironmentVariables</key>\n\t<dict>\n" + environment + "\t</dict>\n"
			}
			return []File{{filepath.Join(p.Home, "Library", "LaunchAgents", label+".plist"), fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- %s -->
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>%s</string>
	<key>ProgramArguments</key>
	<array>
%s	</array>
%s	<key>RunAtLoad</key>
	<true/>
	<key>StandardErrorPath</key>
	<string>%s</string>
</dict>
</plist>
`, marker, label, arguments.String(), environment, escapeXML(filepath.Join(p.Home, "Library", "Logs", "turnstone.log")))}}
		},
		start: func(p Places, files []File) [][]string {
			return [][]string{{"launchctl", "bootstrap", domain(p), files[0].Path}}
		},
		stop: func(p Places, _ []File) [][]string {
			return [][]string{{"launchctl", "bootout", domain(p) + "/" + label}}
		},
	}
}

// escapeXML escapes what both XML and HTML escape, and in the same way.
func escapeXML(s string) string { return html.EscapeString(s) }
