package ipc_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func readProtocolPage(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../docs/worker-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestProtocolPage(t *testing.T) {
	t.Run("lists the vectors of the file", func(t *testing.T) {
		byName := map[string]vector{}
		for _, v := range readVectors(t) {
			byName[v.Name] = v
		}
		rows := regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([0-9a-f* ]+)` \\|$").FindAllStringSubmatch(readProtocolPage(t), -1)
		var seen strings.Builder
		for _, row := range rows {
			v, ok := byName[row[1]]
			if !ok || v.Frame != row[2] {
				t.Errorf("%q: the document has %s, the file %s", row[1], row[2], v.Frame)
			}
			if kind, ok := v.Message["type"].(string); ok {
				seen.WriteString(kind + "\n")
			}
		}
		for kind := range readSchema(t).Messages {
			if !strings.Contains(seen.String(), kind+"\n") {
				t.Errorf("the document has no vector for %s", kind)
			}
		}
	})

	// Each message has a section with a table; this compares the names of fields and
	// the values of enumerations with the schema.
	t.Run("names every field and value in its tables", func(t *testing.T) {
		sections := map[string]string{}
		for _, section := range strings.Split(readProtocolPage(t), "\n### `")[1:] {
			name, rest, _ := strings.Cut(section, "`")
			rest, _, _ = strings.Cut(rest, "\n## ")
			sections[name] = rest
		}
		schema := readSchema(t)
		for kind, message := range schema.Messages {
			section, ok := sections[kind]
			if !ok {
				t.Errorf("no section for %s", kind)
				continue
			}
			message.eachField("", func(path string, f fieldSchema) {
				name := path[strings.LastIndexByte(path, '.')+1:]
				if !f.Required {
					name += "?"
				}
				if !strings.Contains(section, "`"+name+"`") {
					t.Errorf("%s: the table has no %s", kind, name)
				}
				for _, v := range f.Enum {
					if !strings.Contains(section, "`\""+v+"\"`") {
						t.Errorf("%s: the table does not have the value %q of %s", kind, v, name)
					}
				}
			})
		}
		for kind := range sections {
			if _, ok := schema.Messages[kind]; !ok {
				t.Errorf("a section for %s, which is not a message", kind)
			}
		}
	})
}
