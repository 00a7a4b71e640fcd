package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

const typeScriptSource = "clients/typescript"

// writeClientPackage compiles and packs the client for TypeScript. npm installs the compiler that the
// lock file names by its digest, and runs no scripts of packages.
func (r *release) writeClientPackage(ctx context.Context) error {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w; install Node.js 18 or newer with npm, which compile the client", err)
		}
	}
	source := filepath.Join(r.source.dir, filepath.FromSlash(typeScriptSource))
	if _, err := runCommand(ctx, source, nil, "npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"); err != nil {
		return err
	}
	packed := filepath.Join(r.source.dir, ".git", clientPackageName)
	if _, err := runCommand(ctx, source, nil, "node", "pack.mjs", r.source.tag, packed); err != nil {
		return err
	}
	readme, err := r.source.readReadme(typeScriptSource)
	if err != nil {
		return err
	}
	var list []archiveEntry
	err = fs.WalkDir(os.DirFS(packed), ".", func(name string, d fs.DirEntry, err error) error { // in order
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(packed, filepath.FromSlash(name)))
		if name == "README.md" {
			data = readme
		}
		list = append(list, archiveEntry{"package/" + name, data, false})
		return err
	})
	if err != nil {
		return err
	}
	data, err := packTar(list, r.source.time)
	if err != nil {
		return err
	}
	return r.writeFile(clientPackageName+"-"+r.version+".tgz", data)
}
