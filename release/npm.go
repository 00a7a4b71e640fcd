package main

import (
	_ "embed"
	"encoding/json"
)

// The command of the npm package.
//
//go:embed node/cli.js
var nodeCommand []byte

// A nodePackage holds the fields of package.json that a release sets.
type nodePackage struct {
	Name         string            `json:"name"`
	RegistryName string            `json:"mcpName,omitempty"` // proves to the MCP registry whose package it is
	Version      string            `json:"version"`
	Description  string            `json:"description"`
	Homepage     string            `json:"homepage"`
	License      string            `json:"license"`
	Repository   string            `json:"repository"`
	Bin          map[string]string `json:"bin,omitempty"`
	OS           []string          `json:"os,omitempty"`
	CPU          []string          `json:"cpu,omitempty"`
	Files        []string          `json:"files"`
	Engines      map[string]string `json:"engines,omitempty"`
	Dependencies map[string]string `json:"optionalDependencies,omitempty"`

	PreferUnplugged bool `json:"preferUnplugged,omitempty"` // Yarn: a program must be a real file
}

// writeNPMPackages builds one package for each target, and a main package. That has the command,
// and the package for the machine as an optional dependency.
func (r *release) writeNPMPackages() error {
	top := r.newNodePackage(packageName)
	top.RegistryName = registryName
	top.Bin = map[string]string{"repl": "cli.js", packageName: "cli.js"}
	top.Files = []string{"cli.js"}
	top.Engines = map[string]string{"node": ">=18"}
	top.Dependencies = make(map[string]string)
	for _, p := range r.programs {
		scoped := p.nodeOS + "-" + p.nodeCPU
		part := r.newNodePackage("@" + packageName + "/" + scoped)
		part.OS, part.CPU = []string{p.nodeOS}, []string{p.nodeCPU}
		part.Files = []string{"bin/" + p.programName()}
		part.PreferUnplugged = true
		top.Dependencies[part.Name] = r.version
		if err := r.writeNPMPackage(packageName+"-"+scoped, part, archiveEntry{"package/bin/" + p.programName(), p.bytes, true}); err != nil {
			return err
		}
	}
	return r.writeNPMPackage(packageName, top, archiveEntry{"package/cli.js", nodeCommand, true})
}

func (r *release) newNodePackage(name string) nodePackage {
	return nodePackage{
		Name: name, Version: r.version, Description: summary, Homepage: homepage, License: license,
		Repository: "git+" + homepage + ".git",
	}
}

// writeNPMPackage writes a package with its description, license and readme.
func (r *release) writeNPMPackage(base string, about nodePackage, content archiveEntry) error {
	description, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	list := []archiveEntry{{"package/package.json", append(description, '\n'), false}, content}
	for _, e := range r.extras {
		if e.name == "LICENSE" || e.name == "README.md" || e.name == noticesName {
			list = append(list, archiveEntry{"package/" + e.name, e.data, false})
		}
	}
	data, err := packTar(list, r.source.time)
	if err != nil {
		return err
	}
	return r.writeFile(base+"-"+r.version+".tgz", data)
}
