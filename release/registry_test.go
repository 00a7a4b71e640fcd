package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// readRegistrySchema returns the schema of server.json. The file is the one of module
// github.com/modelcontextprotocol/registry at v1.8.9.
func readRegistrySchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	text, err := os.ReadFile("testdata/server.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// writeAll writes the files of a fake release that manifests name, and the manifests.
func writeAll(t *testing.T, r *release) {
	t.Helper()
	if err := r.writeFile(r.sourceName(), []byte("source")); err != nil {
		t.Fatal(err)
	}
	for _, write := range []func() error{r.writeArchives, r.writeSystemPackages, r.writeWheels, r.writeNPMPackages, r.writeBundle, r.writeManifests} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
}

// readOut returns a file of a release.
func readOut(t *testing.T, r *release, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRegistry(t *testing.T) {
	r := newFakeRelease(t, testNumber)
	writeAll(t, r)
	text := readOut(t, r, "server.json")

	t.Run("the entry is valid by the schema of the registry", func(t *testing.T) {
		schema := readRegistrySchema(t)
		var entry map[string]any
		if err := json.Unmarshal([]byte(text), &entry); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(entry); err != nil {
			t.Error(err)
		}
		if entry["$schema"] != schema.Schema().ID {
			t.Errorf("the entry names the schema %s", entry["$schema"])
		}
		for key, value := range map[string]any{"description": strings.Repeat("x", 101), "name": "turnstone", "packages": []any{map[string]any{}}, "version": 1} {
			before := entry[key]
			entry[key] = value
			if err := schema.Validate(entry); err == nil {
				t.Errorf("%s may be %v", key, value)
			}
			entry[key] = before
		}
	})

	t.Run("the entry has the packages of the release", func(t *testing.T) {
		bundle, _ := r.findFile(r.bundleName())
		checkValues(t, "server.json", text, map[string]string{
			"name": registryName, "title": title, "description": summary, "version": testNumber, "websiteUrl": homepage, "repository.url": homepage,
			"packages.0.registryType": "pypi", "packages.0.identifier": packageName, "packages.0.version": r.pythonVersion(), "packages.0.packageArguments.0.value": "mcp",
			"packages.1.registryType": "npm", "packages.1.identifier": packageName, "packages.1.version": testNumber, "packages.1.packageArguments.0.value": "mcp",
			"packages.2.registryType": "mcpb", "packages.2.identifier": r.downloadURL(r.bundleName()), "packages.2.fileSha256": bundle.sha256,
			"packages.3.registryType": "oci", "packages.3.identifier": imageName + ":" + testNumber, "packages.3.version": "",
		})
		// The registry refuses addresses without it.
		if !strings.Contains(r.downloadURL(r.bundleName()), "mcp") {
			t.Errorf("%s has no mcp", r.downloadURL(r.bundleName()))
		}
	})

	// The registry compares them with the name of the entry. A package without one cannot be mended: its
	// version can be published only once.
	t.Run("each package has the mark of the entry", func(t *testing.T) {
		if mark := `LABEL io.modelcontextprotocol.server.name="` + registryName + `"`; !strings.Contains(readOut(t, r, "Containerfile"), mark) {
			t.Errorf("the image lacks %s", mark)
		}
		if !strings.Contains(r.wheelMetadata(), "\n<!-- mcp-name: "+registryName+" -->\n") {
			t.Error("the wheel has no mark")
		}
		packed := findPacked(t, unpackTar(t, filepath.Join(r.out, packageName+"-"+testNumber+".tgz")), "package.json")
		checkValues(t, "package.json", packed, map[string]string{"mcpName": registryName, "name": packageName, "description": summary})
	})
}

func TestCatalogues(t *testing.T) {
	r := newFakeRelease(t, testNumber)
	writeAll(t, r)
	source, _ := r.findFile(r.sourceName())
	for name, want := range map[string]map[string]string{
		"docker-mcp-server.yaml": {
			"name": serverName, "image": imageName + ":" + testNumber, "about.title": title, "about.description": summary,
			"source.project": homepage, "source.commit": r.source.commit, "run.volumes.0": "{{turnstone.workspace}}:/work",
		},
		"conda-recipe.yaml": {
			"package.name": packageName, "package.version": "${{ version }}", "context.version": r.pythonVersion(),
			"source.url": r.downloadURL(r.sourceName()), "source.sha256": source.sha256,
			"about.summary": summary, "about.homepage": homepage, "about.license": license, "requirements.build.0": "${{ compiler('go-nocgo') }}",
		},
		packageName + ".json":           {"version": testNumber, "description": summary, "homepage": homepage, "license": license},
		wingetID + ".yaml":              {"PackageIdentifier": wingetID, "PackageVersion": testNumber},
		wingetID + ".installer.yaml":    {"PackageIdentifier": wingetID, "PackageVersion": testNumber},
		wingetID + ".locale.en-US.yaml": {"PackageIdentifier": wingetID, "PackageVersion": testNumber, "PackageName": packageName, "ShortDescription": summary, "PackageUrl": homepage},
	} {
		t.Run(name+" has the names of the release", func(t *testing.T) {
			checkValues(t, name, readOut(t, r, name), want)
		})
	}
}
