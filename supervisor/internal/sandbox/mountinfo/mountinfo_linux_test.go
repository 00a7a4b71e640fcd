package mountinfo

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

func TestMountAliases(t *testing.T) {
	t.Parallel()

	t.Run("finds a directory under other names", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			what, list string
			want       []mountAlias
		}{
			{"one filesystem", "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /proc rw - proc proc rw\n", nil},
			{"a bind mount of the directory", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 /users/me /mnt/a\\040b rw - ext4 a rw\n", []mountAlias{{"/mnt/a b", "/mnt/a b"}}},
			{"a bind mount of a directory above", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 / /mnt rw - ext4 a rw\n", []mountAlias{{"/mnt/users/me", "/mnt"}}},
			{"a bind mount of a directory below", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 /users/me/data /data rw - ext4 a rw\n", nil},
			{"the top of btrfs", "1 0 0:30 /@ / rw - btrfs a rw\n2 1 0:30 /@home /users rw - btrfs a rw\n3 1 0:30 / /mnt/top rw - btrfs a rw\n", []mountAlias{{"/mnt/top/@home/me", "/mnt/top"}}},
			{"a disk with the directory", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /disk rw - ext4 b rw\n3 1 8:2 /users /users rw - ext4 b rw\n", []mountAlias{{"/disk/users/me", "/disk"}}},
			{"mounted over itself", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 /users/me /users/me rw - ext4 a rw\n", nil},
			{"another directory of that name", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /users rw - ext4 b rw\n3 1 8:1 / /mnt rw - ext4 a rw\n", nil},
		} {
			if got := MountAliases(parseMountInfo(c.list), "/users/me"); !slices.Equal(got, c.want) {
				t.Errorf("%s: got %v, want %v", c.what, got, c.want)
			}
		}
	})

	// /etc/wsl.conf may mount drives elsewhere than below /mnt.
	t.Run("finds Windows homes on every drive", func(t *testing.T) {
		t.Parallel()
		drive := paths.RealOrEmpty(t.TempDir())
		if err := os.MkdirAll(drive+"/Users/me", 0o755); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what, mount string
			want        bool
		}{
			{"WSL 2", drive + ` rw,noatime shared:1 - 9p C:\134 rw,aname=drvfs;path=C:\134`, true},
			{"WSL 1", drive + ` rw - drvfs D: rw`, true},
			{"a network directory", drive + ` rw - nfs h:/srv rw`, false},
			{"without a source", drive + ` rw - tmpfs`, false},
		} {
			got := WindowsHomes(parseMountInfo("2 1 0:50 / " + c.mount + "\n"))
			if slices.Contains(got, drive+"/Users/me") != c.want {
				t.Errorf("%s: got %q", c.what, got)
			}
		}
	})

	t.Run("finds parts of a directory under other names", func(t *testing.T) {
		t.Parallel()
		const root = "1 0 8:1 / / rw - ext4 a rw\n"
		for _, c := range []struct {
			what, list string
			want       map[string]string
		}{
			{"one filesystem", root, nil},
			{"a directory in it", root + "2 1 8:1 /users/me/.ssh/old /mnt/k rw - ext4 a rw\n", map[string]string{"/mnt/k": "/users/me/.ssh/old"}},
			{"a directory of a disk that is mounted there", root + "2 1 8:2 /keys /users/me/.ssh rw - ext4 b rw\n3 1 8:2 /keys/id /mnt/id rw - ext4 b rw\n", map[string]string{"/mnt/id": "/users/me/.ssh/id"}},
			{"a directory in it, mounted in it again", root + "2 1 8:1 /users/me/.ssh/old /users/me/.ssh/new rw - ext4 a rw\n", nil},
			{"the whole directory", root + "2 1 8:1 /users/me/.ssh /mnt/k rw - ext4 a rw\n", nil},
			{"another disk", root + "2 1 8:2 /users/me/.ssh/old /mnt/k rw - ext4 b rw\n", nil},
		} {
			if got := MountsInside(parseMountInfo(c.list), "/users/me/.ssh"); !maps.Equal(got, c.want) {
				t.Errorf("%s: got %v, want %v", c.what, got, c.want)
			}
		}
	})
}
