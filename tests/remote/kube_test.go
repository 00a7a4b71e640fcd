//go:build linux

package remote

import (
	"os"
	"path/filepath"
)

// beginKube starts a cluster of one pod, where the kubelet's own command server runs commands.
func beginKube(e *testEngine) error {
	tools := os.Getenv(remoteTestsEnv)
	config := filepath.Join(e.dir, "kubeconfig")
	if err := e.startServer(filepath.Join(tools, "node"), config); err != nil {
		return err
	}
	if err := waitUntil("the cluster listens", func() bool { _, err := os.Stat(config); return err == nil }); err != nil {
		return err
	}
	e.prefix = append([]string{"env", "KUBECONFIG=" + config, filepath.Join(tools, "kubectl"), "exec", "-i", "pod", "--", "env"}, e.environment()...)
	return e.startDaemon(append(append([]string{"env", "-i"}, e.environment()...), binary, "serve", "--socket", e.socketPath())...)
}
