package osservice

import (
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const launchdLabel = "com.github.turnstone-repl.turnstone"

// newLaunchd installs one agent, which starts with the login and is not restarted when it exits.
// launchd could also pass a socket, but only through a call of its C library, so the daemon creates
// its socket itself.
func newLaunchd() Manager {
	domain := func(p UserDirs) string { return "gui/" + strconv.Itoa(p.UID) }
	return Manager{
		Name:    "launchd",
		command: "launchctl",
		Note:    "launchd starts the daemon at login, not with its first client; it never exits when idle",
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
		program:  regexp.MustCompile(`<key>ProgramArguments</key>\s*<array>\s*<string>([^<]*)</string>`),
		unescape: strings.NewReplacer("&lt;", "<", "&gt;", ">", "&#34;", `"`, "&#39;", "'", "&amp;", "&").Replace, // as escapeXML
		start: func(p UserDirs, files []UnitFile) [][]string {
			return [][]string{{"launchctl", "bootstrap", domain(p), files[0].Path}}
		},
		stop: func(p UserDirs, _ []UnitFile) [][]string {
			return [][]string{{"launchctl", "bootout", domain(p) + "/" + launchdLabel}}
		},
	}
}

// escapeXML escapes the characters that XML and HTML escape alike.
func escapeXML(s string) string { return html.EscapeString(s) }
