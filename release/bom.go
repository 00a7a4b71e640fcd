package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBOM lists the third-party code in the programs, in the format of CycloneDX.
func (r *release) writeBOM() error {
	components := []cdx.Component{}
	for _, p := range r.thirdParties {
		components = append(components, bomComponent(p))
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	for _, p := range r.programs {
		info, err := buildinfo.Read(bytes.NewReader(p.bytes))
		if err != nil {
			return err
		}
		for _, m := range info.Deps {
			if !slices.ContainsFunc(r.thirdParties, func(t thirdParty) bool { return t.name == m.Path && t.version == m.Version }) {
				return fmt.Errorf("the program for %s contains %s %s, which go list does not name", p, m.Path, m.Version)
			}
		}
	}
	main := bomComponent(thirdParty{
		name: "github.com/turnstone-repl/turnstone", version: r.source.tag,
		purl: "pkg:golang/github.com/turnstone-repl/turnstone@" + r.source.tag, license: license,
	})
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

// bomComponent describes a package. CycloneDX has one license as an ID, and several as an expression.
func bomComponent(p thirdParty) cdx.Component {
	choice := cdx.LicenseChoice{License: &cdx.License{ID: p.license}}
	if strings.Contains(p.license, " ") {
		choice = cdx.LicenseChoice{Expression: p.license}
	}
	return cdx.Component{
		Type: cdx.ComponentTypeLibrary, BOMRef: p.purl, Name: p.name, Version: p.version, PackageURL: p.purl,
		Licenses: &cdx.Licenses{choice},
	}
}
