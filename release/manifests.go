package main

import (
	"embed"
	"fmt"
	"strings"
	"text/template"
)

// Manifests of package managers, of the MCP registry and of Docker's catalogue, and a recipe for a
// container image.
//
//go:embed manifests
var manifestTexts embed.FS

// writeManifests writes the files in which package managers describe the archives. A manifest is
// left out if its archives were not built.
func (r *release) writeManifests() error {
	for _, m := range []struct {
		text, name string
		needs      []string // targets
	}{
		{"homebrew.rb", packageName + ".rb", []string{"darwin/arm64", "darwin/amd64", "linux/arm64", "linux/amd64"}},
		{"scoop.json", packageName + ".json", []string{"windows/amd64", "windows/arm64"}},
		{"winget.version.yaml", wingetID + ".yaml", []string{"windows/amd64", "windows/arm64"}},
		{"winget.installer.yaml", wingetID + ".installer.yaml", []string{"windows/amd64", "windows/arm64"}},
		{"winget.locale.yaml", wingetID + ".locale.en-US.yaml", []string{"windows/amd64", "windows/arm64"}},
		{"Containerfile", "Containerfile", []string{"linux/amd64", "linux/arm64"}},
		{"server.json", "server.json", everyTarget()},
		{"conda.yaml", "conda-recipe.yaml", nil},
		{"docker.yaml", "docker-mcp-server.yaml", []string{"linux/amd64", "linux/arm64"}},
	} {
		archives, complete := r.findArchives(m.needs)
		if !complete {
			continue
		}
		data, err := r.fillTemplate(m.text, archives)
		if err != nil {
			return err
		}
		if err := r.writeFile(m.name, data); err != nil {
			return err
		}
	}
	return nil
}

// everyTarget returns the names of all targets.
func everyTarget() (names []string) {
	for _, t := range buildTargets {
		names = append(names, t.String())
	}
	return names
}

// An archiveInfo holds the facts about an archive that a manifest contains.
type archiveInfo struct{ URL, SHA256, Dir string }

// findArchives returns the archives by "OS_ARCH".
func (r *release) findArchives(targets []string) (found map[string]archiveInfo, complete bool) {
	found = make(map[string]archiveInfo)
	for _, name := range targets {
		name = strings.ReplaceAll(name, "/", "_")
		dir := fmt.Sprintf("%s_%s_%s", packageName, r.version, name)
		for _, end := range []string{".tar.gz", ".zip"} {
			if f, ok := r.findFile(dir + end); ok {
				found[name] = archiveInfo{r.downloadURL(f.name), f.sha256, dir}
			}
		}
	}
	return found, len(found) == len(targets)
}

// fileInfo returns the facts about a file of the release, or the zero value if it was not built.
func (r *release) fileInfo(name string) archiveInfo {
	f, ok := r.findFile(name)
	if !ok {
		return archiveInfo{}
	}
	return archiveInfo{r.downloadURL(f.name), f.sha256, ""}
}

func (r *release) fillTemplate(name string, archives map[string]archiveInfo) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{"upper": strings.ToUpper}).ParseFS(manifestTexts, "manifests/"+name)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	err = t.ExecuteTemplate(&b, name, map[string]any{
		"Version": r.version, "Date": r.source.time.Format("2006-01-02"), "Archives": archives,
		"Name": packageName, "Homepage": homepage, "Summary": summary, "License": license,
		"ID": wingetID, "Schema": wingetSchema, "Image": imageName, "Registry": registryName, "Title": title,
		"PythonVersion": r.pythonVersion(), "Commit": r.source.commit, "Server": serverName,
		"Bundle": r.fileInfo(r.bundleName()), "Source": r.fileInfo(r.sourceName()),
	})
	return []byte(b.String()), err
}
