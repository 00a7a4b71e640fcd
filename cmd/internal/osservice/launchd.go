package osservice

import (
	"fmt"
	"html"
	"path/filepath"
	"strconv"
	"strings"
)

const launchdLabel = "com.github.turnstone-repl.turnstone"

// newLaunchd has one agent, which starts with the login and is not started again when it ends.
// newLaunchd could also pass a socket, but only by a call of its own C library, so the daemon
// makes its socket itself.
func newLaunchd() Manager {
	domain := func(p UserDirs) string { return "gui/" + strconv.Itoa(p.UID) }
	return Manager{
		Name:    "launchd",
		command: "launchctl",
		Note:    "launchd starts it at the login, not with its first client: it has no idle exit",
		files: func(p UserDirs, o *Options) []UnitFile {
			serve := []string{o.Executable, "serve", "--quiet"}
			if o.Socket != "" {
				serve = append(serve, "--socket", o.Socket)
			}
			var arguments strings.Builder
			for _, a := range serve {
				fmt.Fprintf(&arguments, "\t\t<string>%s</string>\n", escapeXML(a))
			}
			environment := ""
			for _, v := range o.environment() {
				environment += fmt.Sprintf("\t\t<key>%s</key>\n\t\t<string>%s</string>\n", v[0], escapeXML(v[1]))
			}
			if environment != "" {
				environment = "\t<key>EnvironmentVariables</key>\n\t<dict>\n" + environment + "\t</dict>\n"
			}
			return []UnitFile{{filepath.Join(p.Home, "Library", "LaunchAgents", launchdLabel+".plist"), fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
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
`, ownerMarker, launchdLabel, arguments.String(), environment, escapeXML(filepath.Join(p.Home, "Library", "Logs", "turnstone.log")))}}
		},
		start: func(p UserDirs, files []UnitFile) [][]string {
			return [][]string{{"launchctl", "bootstrap", domain(p), files[0].Path}}
		},
		stop: func(p UserDirs, _ []UnitFile) [][]string {
			return [][]string{{"launchctl", "bootout", domain(p) + "/" + launchdLabel}}
		},
	}
}

// escapeXML escapes what both XML and HTML escape, and in the same way.
func escapeXML(s string) string { return html.EscapeString(s) }
