package main

import (
	"bytes"
	"debug/macho"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// A bundleManifest is manifest.json of an MCP bundle. Version 0.3 of the format is the oldest that has all
// of it (https://github.com/modelcontextprotocol/mcpb/blob/main/MANIFEST.md).
type bundleManifest struct {
	Format         string              `json:"manifest_version"`
	Name           string              `json:"name"`
	DisplayName    string              `json:"display_name"`
	Version        string              `json:"version"`
	Description    string              `json:"description"`
	Author         map[string]string   `json:"author"`
	Repository     map[string]string   `json:"repository"`
	Homepage       string              `json:"homepage"`
	Support        string              `json:"support"`
	License        string              `json:"license"`
	Server         bundleServer        `json:"server"`
	ToolsGenerated bool                `json:"tools_generated"` // the client asks the server for them
	Compatibility  map[string][]string `json:"compatibility"`
}

type bundleServer struct {
	Type       string        `json:"type"`
	EntryPoint string        `json:"entry_point"`
	Config     bundleCommand `json:"mcp_config"`
}

type bundleCommand struct {
	Command   string                   `json:"command"`
	Args      []string                 `json:"args,omitempty"`
	Overrides map[string]bundleCommand `json:"platform_overrides,omitempty"`
}

func (r *release) bundleName() string { return packageName + "_" + r.version + ".mcpb" }

// writeBundle writes the MCP bundle, which desktop clients install with a click. A bundle chooses a program by
// system and not by processor. It therefore has one program of macOS for both processors. That of Windows is for
// amd64, which Windows on arm64 emulates. Linux emulates nothing, and is left out. The bundle is left out if one of
// its programs was not built.
func (r *release) writeBundle() error {
	var programs [3][]byte
	for i, target := range []string{"darwin/amd64", "darwin/arm64", "windows/amd64"} {
		for _, p := range r.programs {
			if p.String() == target {
				programs[i] = p.bytes
			}
		}
		if programs[i] == nil {
			return nil
		}
	}
	universal, err := joinUniversal(programs[0], programs[1])
	if err != nil {
		return err
	}
	manifest, err := json.MarshalIndent(r.bundleManifest(), "", "  ")
	if err != nil {
		return err
	}
	list := []archiveEntry{
		{"manifest.json", append(manifest, '\n'), false},
		{"server/repl", universal, true},
		{"server/repl.exe", programs[2], true},
	}
	for _, e := range r.extras {
		if e.name == "LICENSE" || e.name == noticesName {
			list = append(list, archiveEntry{e.name, e.data, false})
		}
	}
	data, err := packZip(list, r.source.time)
	if err != nil {
		return err
	}
	return r.writeFile(r.bundleName(), data)
}

func (r *release) bundleManifest() bundleManifest {
	return bundleManifest{
		Format: "0.3", Name: packageName, DisplayName: title, Version: r.version, Description: summary,
		Author:     map[string]string{"name": author, "url": homepage},
		Repository: map[string]string{"type": "git", "url": homepage + ".git"},
		Homepage:   homepage, Support: homepage + "/issues", License: license,
		Server: bundleServer{"binary", "server/repl", bundleCommand{
			"${__dirname}/server/repl", []string{"mcp"},
			map[string]bundleCommand{"win32": {Command: "${__dirname}/server/repl.exe"}},
		}},
		ToolsGenerated: true,
		Compatibility:  map[string][]string{"platforms": {"darwin", "win32"}},
	}
}

// universalAlign is the binary logarithm of a page of macOS on arm64, the larger of the two.
const universalAlign = 14

// joinUniversal joins programs of macOS for several processors into one. Each keeps the signature that Go's
// linker made, which covers that part only.
func joinUniversal(programs ...[]byte) ([]byte, error) {
	headers := make([]macho.FatArchHeader, 0, len(programs))
	end := 1 << universalAlign
	for _, program := range programs {
		f, err := macho.NewFile(bytes.NewReader(program))
		if err != nil {
			return nil, fmt.Errorf("not a program of macOS: %w", err)
		}
		headers = append(headers, macho.FatArchHeader{Cpu: f.Cpu, SubCpu: f.SubCpu, Offset: uint32(end), Size: uint32(len(program)), Align: universalAlign})
		end = (end + len(program) + 1<<universalAlign - 1) &^ (1<<universalAlign - 1)
	}
	var b bytes.Buffer
	for _, part := range []any{macho.MagicFat, uint32(len(headers)), headers} {
		if err := binary.Write(&b, binary.BigEndian, part); err != nil {
			return nil, err
		}
	}
	for i, program := range programs {
		b.Write(make([]byte, int(headers[i].Offset)-b.Len()))
		b.Write(program)
	}
	_, err := macho.NewFatFile(bytes.NewReader(b.Bytes()))
	return b.Bytes(), err
}
