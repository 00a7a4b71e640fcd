package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// readTree returns a file of the tree.
func readTree(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// lookUp returns the value at a path such as "plugins.0.name" in decoded JSON or YAML, as a text. It returns
// "" if there is none.
func lookUp(value any, path string) string {
	for key := range strings.SplitSeq(path, ".") {
		switch in := value.(type) {
		case map[string]any:
			value = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(in) {
				return ""
			}
			value = in[i]
		default:
			return ""
		}
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// checkValues checks the values at some paths of a file in JSON, or in YAML, of which JSON is a part.
func checkValues(t *testing.T, name, text string, want map[string]string) {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	for path, want := range want {
		if got := lookUp(value, path); got != want {
			t.Errorf("%s: %s is %q, want %q", name, path, got, want)
		}
	}
}

// A serverEntry starts the server in the configuration of a client.
type serverEntry struct {
	Command string
	Args    []string
}

// checkServerEntry checks that an entry starts the server with uvx.
func checkServerEntry(t *testing.T, name string, entry serverEntry) {
	t.Helper()
	if entry.Command != "uvx" || !slices.Equal(entry.Args, []string{packageName, "mcp"}) {
		t.Errorf("%s starts %+v", name, entry)
	}
}

const skillFile = "plugins/turnstone/skills/turnstone/SKILL.md"

func TestPlugins(t *testing.T) {
	about := map[string]string{
		"name": serverName, "version": nextVersion, "description": summary, "author.name": author, "author.url": homepage,
		"homepage": homepage, "repository": homepage, "license": license,
	}
	plugin := "./plugins/" + serverName

	t.Run("have the names, the version and the description of a release", func(t *testing.T) {
		for name, want := range map[string]map[string]string{
			"plugins/turnstone/.claude-plugin/plugin.json": about,
			"plugins/turnstone/.codex-plugin/plugin.json":  about,
			".claude-plugin/marketplace.json": {
				"name": serverName, "description": summary, "owner.name": author, "owner.url": homepage,
				"plugins.0.name": serverName, "plugins.0.description": summary, "plugins.0.source": plugin,
			},
			".agents/plugins/marketplace.json": {
				"name": serverName, "interface.displayName": title,
				"plugins.0.name": serverName, "plugins.0.source.path": plugin,
			},
			"gemini-extension.json": {"name": serverName, "version": nextVersion, "description": summary, "contextFileName": skillFile},
		} {
			checkValues(t, name, readTree(t, name), want)
		}
		checkValues(t, "interface", readTree(t, "plugins/turnstone/.codex-plugin/plugin.json"), map[string]string{
			"interface.displayName": title, "interface.developerName": author, "skills": "./skills/", "mcpServers": "./.mcp.json",
		})
	})

	t.Run("start the server with uvx", func(t *testing.T) {
		for _, name := range []string{"plugins/turnstone/.mcp.json", "gemini-extension.json"} {
			var file struct{ McpServers map[string]serverEntry }
			if err := json.Unmarshal([]byte(readTree(t, name)), &file); err != nil || len(file.McpServers) != 1 {
				t.Errorf("%s: %+v, %v", name, file, err)
			}
			checkServerEntry(t, name, file.McpServers[serverName])
		}
	})

	t.Run("are all in the tree, and nothing else is in their directory", func(t *testing.T) {
		var found []string
		err := fs.WalkDir(os.DirFS("../plugins"), ".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				found = append(found, "plugins/"+name)
			}
			return err
		})
		want := []string{
			"plugins/turnstone/.claude-plugin/plugin.json", "plugins/turnstone/.codex-plugin/plugin.json",
			"plugins/turnstone/.mcp.json", skillFile,
		}
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("got %q, %v", found, err)
		}
	})

	t.Run("have a skill that clients accept, with the tools that there are", func(t *testing.T) {
		_, text, _ := strings.Cut(readTree(t, skillFile), "---\n")
		front, body, ok := strings.Cut(text, "\n---\n")
		var about struct{ Name, Description, License, Compatibility string }
		if err := yaml.Unmarshal([]byte(front), &about); err != nil || !ok {
			t.Fatal(err)
		}
		// https://agentskills.io/specification
		if about.Name != filepath.Base(filepath.Dir(skillFile)) || !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(about.Name) ||
			about.Description == "" || len(about.Description) > 1024 || len(about.Compatibility) > 500 || about.License != license {
			t.Errorf("%+v", about)
		}
		_, tools, _ := strings.Cut(readTree(t, "docs/agents.md"), "\n## Tools\n")
		tools, _, _ = strings.Cut(tools, "\n### ")
		var there []string
		for _, row := range regexp.MustCompile("(?m)^\\| `(repl\\w*)` \\|").FindAllStringSubmatch(tools, -1) {
			there = append(there, row[1])
		}
		if len(there) != 5 {
			t.Errorf("docs/agents.md has the tools %q", there)
		}
		for _, tool := range there {
			if !strings.Contains(body, "`"+tool+"`") {
				t.Errorf("the skill does not name %s", tool)
			}
		}
		for _, named := range regexp.MustCompile("`(repl\\w*)`").FindAllStringSubmatch(body, -1) {
			if !slices.Contains(there, named[1]) {
				t.Errorf("the skill names %s", named[1])
			}
		}
	})
}

func TestVersion(t *testing.T) {
	t.Run("of the tree is the same in each file", func(t *testing.T) {
		for name, pattern := range map[string]string{
			"CHANGELOG.md": `(?m)^## \[(\d+\.\d+\.\d+)\]`, // the first
			"clients/python/turnstone_client/__init__.py": `(?m)^__version__ = "(.+)"$`,
			"flake.nix": `(?m)^ +version = "(.+)";`,
		} {
			if found := regexp.MustCompile(pattern).FindStringSubmatch(readTree(t, name)); found == nil || found[1] != nextVersion {
				t.Errorf("%s: got %q, want %s", name, found, nextVersion)
			}
		}
	})

	t.Run("of a release is that of the tree", func(t *testing.T) {
		for version, want := range map[string]bool{"v" + nextVersion: true, "v9.9.9-rc.1": true, "v9.9.9": false} {
			if err := checkVersion(version); (err == nil) != want {
				t.Errorf("%s: %v", version, err)
			}
		}
		if err := runRelease(t.Context(), []string{"--version", "v9.9.9", "--out", filepath.Join(t.TempDir(), "d")}); err == nil || !strings.Contains(err.Error(), "nextVersion") {
			t.Errorf("%v", err)
		}
	})
}

// linksTo returns the targets of the links of a page that begin with a prefix.
func linksTo(page, prefix string) (found []*url.URL) {
	for _, link := range inlineLink.FindAllStringSubmatch(page, -1) {
		if u, err := url.Parse(link[1]); err == nil && strings.HasPrefix(link[1], prefix) {
			found = append(found, u)
		}
	}
	return found
}

func TestButtons(t *testing.T) {
	for _, name := range []string{"README.md", "docs/install.md"} {
		t.Run(name+" has links by which Cursor and VS Code start the server", func(t *testing.T) {
			for prefix, decode := range map[string]func(string) ([]byte, error){
				"https://cursor.com/install-mcp?":                   base64.StdEncoding.DecodeString,
				"https://insiders.vscode.dev/redirect/mcp/install?": func(s string) ([]byte, error) { return []byte(s), nil },
			} {
				links := linksTo(readTree(t, name), prefix) // one before the first release, and one after it
				if len(links) == 0 {
					t.Errorf("%s: no link", prefix)
				}
				for _, link := range links {
					data, err := decode(link.Query().Get("config"))
					if err != nil {
						t.Fatal(err)
					}
					var entry serverEntry
					if err := json.Unmarshal(data, &entry); err != nil || link.Query().Get("name") != serverName {
						t.Errorf("%s: %v", link, err)
					}
					checkServerEntry(t, prefix, entry)
				}
			}
		})
	}
}

// channelNames matches a name by which a page tells users to install the program, with the names that it may be.
var channelNames = map[*regexp.Regexp][]string{
	regexp.MustCompile(`brew (?:install|upgrade) (\S+)`):                              {"turnstone-repl/tap/" + packageName, packageName},
	regexp.MustCompile("`uvx ([\\w-]+)"):                                              {packageName},
	regexp.MustCompile(`npx -y ([\w-]+)`):                                             {packageName},
	regexp.MustCompile(`uv tool (?:install|upgrade) ([a-z]\S+)`):                      {packageName},
	regexp.MustCompile(`pipx (?:install|upgrade) (\S+)`):                              {packageName},
	regexp.MustCompile(`(ghcr\.io/[\w./-]+)`):                                         {imageName},
	regexp.MustCompile(`winget (?:install|upgrade) (?:--id )?([A-Z]\S+)`):             {wingetID},
	regexp.MustCompile(`scoop update (\S+)`):                                          {packageName},
	regexp.MustCompile(`(io\.github\.[\w./-]+\w)`):                                    {registryName},
	regexp.MustCompile(`plugin marketplace add (\S+)`):                                {strings.TrimPrefix(homepage, "https://github.com/")},
	regexp.MustCompile(`(?:claude plugin (?:install|update)|codex plugin add) (\S+)`): {serverName + "@" + serverName},
	regexp.MustCompile(`gemini extensions (?:install|update) (\S+)`):                  {homepage, serverName},
	regexp.MustCompile(`nix (?:run|profile add) (github:[\w-]+/[\w-]+)`):              {"github:" + strings.TrimPrefix(homepage, "https://github.com/")},
}

func TestPages(t *testing.T) {
	t.Run("name each channel alike", func(t *testing.T) {
		pages, err := filepath.Glob("../docs/*.md")
		if err != nil {
			t.Fatal(err)
		}
		install := readTree(t, "docs/install.md")
		for pattern, allowed := range channelNames {
			if !pattern.MatchString(install) {
				t.Errorf("docs/install.md has nothing for %s", pattern)
			}
			for _, page := range append(pages, "../README.md", "../.github/workflows/release.yml") {
				for _, found := range pattern.FindAllStringSubmatch(readTree(t, strings.TrimPrefix(page, "../")), -1) {
					if name := strings.TrimRight(found[1], "`.,;:"); !slices.Contains(allowed, name) {
						t.Errorf("%s: %q names %s, want one of %q", page, found[0], name, allowed)
					}
				}
			}
		}
	})
}
