package linux

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Compute devices are visible as on the machine; disks, memory, cameras and terminals of other
// users are not.
func TestDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, n := range []string{"null", "zero", "full", "random", "urandom", "tty", "nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia-caps/cap1", "nvidiaX", "dri/renderD128", "kfd", "sda", "mem", "kmsg", "video0", "fuse", "kvm", "input/event0", "snd/pcm", "tty1", "vhost-net", "net/tun"} {
		path := filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := devicesOf(dir)
	slices.Sort(got)
	want := []string{"dri", "full", "kfd", "null", "nvidia-caps", "nvidia-uvm", "nvidia0", "nvidia12", "nvidiactl", "random", "tty", "urandom", "zero"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
