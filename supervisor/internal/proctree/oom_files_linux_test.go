package proctree

import (
	"slices"
	"testing"
)

func TestOOMCounterFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, groups, mounts string
		want                 []string
	}{
		{
			"version 2",
			"0::/user.slice/a.scope\n",
			"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
			[]string{"/sys/fs/cgroup/user.slice/a.scope/memory.events", "/sys/fs/cgroup/memory.events"},
		},
		{
			"version 1 among others",
			"4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n",
			"31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			[]string{"/sys/fs/cgroup/memory/docker/abc/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control"},
		},
		{
			"container that sees its own group at the top",
			"4:memory:/docker/abc\n",
			"32 30 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			[]string{"/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control"},
		},
		{"no cgroups", "", "", nil},
		{"broken lines", "x\n::\n", "a - b\n - \n1 2 3 4 5 - cgroup2\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := oomCounterFiles(c.groups, c.mounts); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
