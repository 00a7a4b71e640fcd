package main

import (
	"fmt"
	"strings"
)

// Names under which the program is published.
const (
	packageName  = "turnstone-repl"
	moduleName   = "turnstone_repl"                     // of its Python package
	registryName = "io.github.turnstone-repl/turnstone" // in the MCP registry
	docDir       = "/usr/share/doc/" + packageName + "/"
	homepage     = "https://github.com/turnstone-repl/turnstone"
	summary      = "Keeps R and Python REPLs alive for coding agents, programs and people"
	license      = "Apache-2.0"
	maintainer   = author + " <turnstone-repl@users.noreply.github.com>"
	wingetID     = "Turnstone.Repl"
	wingetSchema = "1.6.0"
	imageName    = "ghcr.io/turnstone-repl/" + packageName
	serverName   = "turnstone" // of the MCP server in a client, and of the plugins
	title        = "Turnstone"
	author       = "The Turnstone authors"
)

// nextVersion is the version in files of the tree that have one, such as the plugins, which clients read
// from the repository and not from a release. It is the version of the next release.
const nextVersion = "0.1.0"

// checkVersion refuses to release another version than the one in the files of the tree. A candidate may be
// of any version, because no client takes its files.
func checkVersion(version string) error {
	if version != "v"+nextVersion && !isCandidate(version) {
		return fmt.Errorf("--version %s: the files of the tree are of version %s; --prepare %s changes nextVersion and the files that have it", version, nextVersion, version)
	}
	return nil
}

// downloadURL is the address of a file of the release.
func (r *release) downloadURL(name string) string {
	return homepage + "/releases/download/v" + r.version + "/" + name
}

// pythonVersion is the version in the form of PEP 440: 1.2.3-rc.1 is 1.2.3rc1.
func (r *release) pythonVersion() string {
	return strings.ReplaceAll(r.version, "-rc.", "rc")
}
