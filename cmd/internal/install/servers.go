package install

import (
	"fmt"
	"path/filepath"
)

// ReadTree returns the name and the parsed content of a client's file for the user. A missing file
// is an error.
func (c ClientConfig) ReadTree(p ConfigDirs) (file string, tree map[string]any, err error) {
	file = c.file(p)
	tree, err = c.parseFile(file)
	return file, tree, err
}

// ReadProjectTree is ReadTree for the client's file below a project.
func (c ClientConfig) ReadProjectTree(p ConfigDirs) (file string, tree map[string]any, err error) {
	file = filepath.Join(p.Project, c.project)
	tree, err = c.parseFile(file)
	return file, tree, err
}

func (c ClientConfig) parseFile(file string) (map[string]any, error) {
	s, err := readFile(file)
	if err != nil {
		return nil, err
	}
	if !s.exists {
		return nil, fmt.Errorf("%s does not exist", file)
	}
	tree, err := c.format.parse(s.text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return tree, nil
}

// ServersIn returns the entries of a client's tree, by their names.
func (c ClientConfig) ServersIn(tree map[string]any) map[string]any {
	v, _ := lookupKeys(tree, c.servers(tree))
	all, _ := v.(map[string]any)
	return all
}

// ReadJSON reads a file of JSON with comments.
func ReadJSON(file string) (map[string]any, error) {
	return ClientConfig{format: jsonFormat{}}.parseFile(file)
}
