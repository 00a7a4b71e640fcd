package main

import (
	_ "embed"
	"encoding/json"
)

// The command of the npm package.
//
//go:embed node/cli.js
var nodeCommand []byte

// A nodePackage is the part of package.json that is used.
type nodePackage struct {
	Name         string            `json:"name"`
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

// npm makes one package for each target, and one that takes the one for the machine as an
// optional dependency and has the command.
func (r *release) npm() error {
	top := r.nodePackage(packageName)
	top.Bin = map[string]string{"repl": "cli.js", packageName: "cli.js"}
	top.Files = []string{"cli.js"}
	top.Engines = map[string]string{"node": ">=18"}
	top.Dependencies = make(map[string]string)
	for _, p := range r.programs {
		scoped := p.nodeOS + "-" + p.nodeCPU
		part := r.nodePackage("@" + packageName + "/" + scoped)
		part.OS, part.CPU = []string{p.nodeOS}, []string{p.nodeCPU}
		part.Files = []string{"bin/" + p.exe()}
		part.PreferUnplugged = true
		top.Dependencies[part.Name] = r.version
		if err := r.pack(packageName+"-"+scoped, part, entry{"package/bin/" + p.exe(), p.bytes, true}); err != nil {
			return err
		}
	}
	return r.pack(packageName, top, entry{"package/cli.js", nodeCommand, true})
}

func (r *release) nodePackage(name string) nodePackage {
	return nodePackage{
		Name: name, Version: r.version, Description: summary, Homepage: homepage, License: license,
		Repository: "git+" + homepage + ".git",
	}
}

// pack writes a package with its description, license and readme.
func (r *release) pack(base string, about nodePackage, content entry) error {
	description, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	list := []entry{{"package/package.json", append(description, '\n'), false}, content}
	for _, e := range r.extras {
		if e.name == "LICENSE" || e.name == "README.md" {
			list = append(list, entry{"package/" + e.name, e.data, false})
		}
	}
	data, err := tarred(list, r.source.time)
	if err != nil {
		return err
	}
	return r.write("npm/"+base+"-"+r.version+".tgz", data)
}
