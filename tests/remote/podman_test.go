//go:build linux

package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// withoutLimitsScript removes resource limits from a container's configuration before it runs runc.
// podman always raises these limits, and a machine that is itself a container may lack the
// privilege.
const withoutLimitsScript = `#!/usr/bin/python3 -IS
import json, os, sys
args = sys.argv[1:]
for flag, name in (("--bundle", "config.json"), ("--process", "")):
    if flag in args:
        path = os.path.join(args[args.index(flag) + 1], name).rstrip("/")
        with open(path) as file:
            config = json.load(file)
        config.get("process", config).pop("rlimits", None)
        with open(path, "w") as file:
            json.dump(config, file)
os.execvp("runc", ["runc"] + args)
`

// beginPodman starts a container whose first process is the daemon. It uses the files of this
// machine, so it needs no image.
func beginPodman(e *testEngine) error {
	podman, err := e.podmanCommand()
	if err != nil {
		return err
	}
	if err := e.startContainer(podman, "box", binary, "serve", "--socket", e.socketPath()); err != nil {
		return err
	}
	e.prefix = append(podman, "exec", "-i", "box")
	return e.awaitDaemon()
}

// podmanCommand returns the words that start each podman command, with the engine's own files.
func (e *testEngine) podmanCommand() ([]string, error) {
	runtime, err := e.writeFile("runc", 0o700, withoutLimitsScript)
	if err != nil {
		return nil, err
	}
	return []string{"podman", "--root", e.dir + "/storage", "--runroot", e.dir + "/run", "--tmpdir", e.dir + "/tmp",
		"--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "none", "--runtime", runtime}, nil
}

// startContainer starts a container with words as its first process, and removes it with the
// engine.
func (e *testEngine) startContainer(podman []string, name string, words ...string) error {
	root := filepath.Join(e.dir, name+".root")
	for _, dir := range []string{"proc", "sys", "dev", "tmp", "etc/alternatives", "usr", "root", "run", "var"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, link := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.Symlink("usr/"+link, filepath.Join(root, link)); err != nil && !errors.Is(err, fs.ErrExist) { // a test may run again
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644); err != nil {
		return err
	}
	run := append(append([]string(nil), podman...), "run", "--detach", "--name", name, "--network", "none", "--init",
		"--volume", "/usr:/usr:ro", "--volume", "/etc/alternatives:/etc/alternatives:ro", "--volume", workDir+":"+workDir)
	for _, variable := range e.environment() {
		run = append(run, "--env", variable)
	}
	run = append(append(run, "--rootfs", root), words...)
	if _, err := e.runOutput(run...); err != nil {
		return fmt.Errorf("the container %s: %w", name, err)
	}
	e.cleanups = append(e.cleanups, func() {
		if _, err := e.runOutput(append(append([]string(nil), podman...), "rm", "--force", "--time", "0", name)...); err != nil && !strings.Contains(err.Error(), "no such container") {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	return nil
}
