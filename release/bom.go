package main

import (
	"bytes"
	"debug/buildinfo"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBOM lists the modules in the programs, in the format of CycloneDX.
func (r *release) writeBOM() error {
	modules := make(map[string]*debug.Module)
	goVersion := ""
	for _, p := range r.programs {
		info, err := buildinfo.Read(bytes.NewReader(p.bytes))
		if err != nil {
			return err
		}
		goVersion = strings.TrimPrefix(info.GoVersion, "go")
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path+"@"+m.Version] = m
		}
	}
	components := []cdx.Component{bomComponent("std", "v"+goVersion)}
	for _, m := range modules {
		components = append(components, bomComponent(m.Path, m.Version))
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	main := bomComponent("github.com/turnstone-repl/turnstone", "v"+r.version)
	main.Type = cdx.ComponentTypeApplication
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.source.time.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return r.writeFile(packageName+"_"+r.version+".cdx.json", b.Bytes())
}

func bomComponent(path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + version
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: path, Version: version, PackageURL: purl}
}
