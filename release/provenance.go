package main

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
)

// writeProvenance writes a statement of how the files were built, following
// https://slsa.dev/spec/v1.0. It is not signed: the forge that runs this program signs its own.
func (r *release) writeProvenance() error {
	type digest map[string]string
	type subject struct {
		Name   string `json:"name"`
		Digest digest `json:"digest"`
	}
	type resource struct {
		URI    string `json:"uri"`
		Digest digest `json:"digest,omitempty"`
	}
	var subjects []subject
	for _, f := range r.files {
		subjects = append(subjects, subject{f.name, digest{"sha256": f.sha256}})
	}
	slices.SortFunc(subjects, func(a, b subject) int { return strings.Compare(a.Name, b.Name) })
	source := "git+" + homepage + "@refs/tags/" + r.source.tag
	statement := map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            homepage + "/tree/main/release",
				"externalParameters":   map[string]any{"version": r.source.tag, "source": source},
				"resolvedDependencies": []resource{{source, digest{"gitCommit": r.source.commit}}, {"pkg:golang/std@" + runtime.Version(), nil}},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": homepage + "/tree/main/release"}},
		},
	}
	data, err := json.MarshalIndent(statement, "", "  ")
	if err != nil {
		return err
	}
	return r.writeFile(packageName+"_"+r.version+".intoto.json", append(data, '\n'))
}
