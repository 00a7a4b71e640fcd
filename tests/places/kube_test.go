//go:build linux

package places

import (
	"os"
	"path/filepath"
)

// beginKube starts a cluster of one pod, where commands run by the kubelet's own server of commands.
func beginKube(e *engine) error {
	tools := os.Getenv(kubeEnv)
	config := filepath.Join(e.dir, "kubeconfig")
	if err := e.serves(filepath.Join(tools, "node"), config); err != nil {
		return err
	}
	if err := until("the cluster listens", func() bool { _, err := os.Stat(config); return err == nil }); err != nil {
		return err
	}
	e.words = append([]string{"env", "KUBECONFIG=" + config, filepath.Join(tools, "kubectl"), "exec", "-i", "pod", "--", "env"}, e.env()...)
	return e.daemon(append(append([]string{"env", "-i"}, e.env()...), binary, "serve", "--socket", e.socket())...)
}
