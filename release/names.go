package main

import "strings"

// Names under which the program is published.
const (
	packageName  = "turnstone-repl"
	moduleName   = "turnstone_repl"                     // of its Python package
	registryName = "io.github.turnstone-repl/turnstone" // in the MCP registry
	docDir       = "/usr/share/doc/" + packageName + "/"
	homepage     = "https://github.com/turnstone-repl/turnstone"
	summary      = "Keeps R and Python REPLs alive for coding agents, programs and people"
	license      = "Apache-2.0"
	maintainer   = "The Turnstone authors <turnstone-repl@users.noreply.github.com>"
	wingetID     = "Turnstone.Repl"
	wingetSchema = "1.6.0"
)

// downloadURL is the address of a file of the release.
func (r *release) downloadURL(name string) string {
	return homepage + "/releases/download/v" + r.version + "/" + name
}

// pythonVersion is the version in the form of PEP 440: 1.2.3-rc.1 is 1.2.3rc1.
func (r *release) pythonVersion() string {
	return strings.ReplaceAll(r.version, "-rc.", "rc")
}
