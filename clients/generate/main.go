// Command generate writes the schema of the daemon's protocol, and the types of the clients in
// other languages. Both come from the Go types of the daemon's methods:
//
//	go run ./clients/generate
//
// A test compares the files with its output.
//
// # Go types as the source
//
// The Go structs of the daemon's methods are the only source of the types. Hand-written types would
// drift with each new field. An interface language such as protobuf was rejected: it would be a
// second source, and everybody who builds would need its tool.
//
// Only types are generated. The rest of each client is written by hand, because no table describes
// it: cancels that reach the daemon, streams that resume after their last event, and bounds. The
// clients use only the standard libraries of Python 3.8 and Node.js 18.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	files, err := generateFiles(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), data, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}

// generateFiles returns the files, by their paths from the root of the tree.
func generateFiles(root string) (map[string][]byte, error) {
	w, err := readModel(root)
	if err != nil {
		return nil, err
	}
	schema, err := w.writeSchema()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"docs/daemon.schema.json":                 schema,
		"clients/python/turnstone_client/wire.py": w.writePython(),
		"clients/typescript/src/wire.ts":          w.writeTypeScript(),
	}, nil
}
