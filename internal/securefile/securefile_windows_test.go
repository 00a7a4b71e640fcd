package securefile

import (
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Wine stores only the part of an access list that a Unix file mode can express: the
// rights of the user and of everyone.
const (
	fileHint = `:F" /remove:g "*S-1-1-0")`
	dirHint  = `:(OI)(CI)F" /remove:g "*S-1-1-0")`
)

// makeInsecure makes a file or a directory that everyone may read.
func makeInsecure(t *testing.T, path string, dir bool) {
	t.Helper()
	user, err := currentUser()
	if err != nil {
		t.Fatal(err)
	}
	descriptor, err := windows.SecurityDescriptorFromString("D:P(A;;FA;;;" + user + ")(A;;FR;;;WD)")
	if err != nil {
		t.Fatal(err)
	}
	access := &windows.SecurityAttributes{SecurityDescriptor: descriptor}
	access.Length = uint32(unsafe.Sizeof(*access))
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		t.Fatal(err)
	}
	if dir {
		err = windows.CreateDirectory(name, access)
	} else {
		var h windows.Handle
		h, err = windows.CreateFile(name, windows.GENERIC_WRITE, 0, access, windows.CREATE_NEW, windows.FILE_ATTRIBUTE_NORMAL, 0)
		if err == nil {
			err = windows.CloseHandle(h)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheck_AccountName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	makeInsecure(t, path, false)
	sid, err := windows.StringToSid(everyoneSID)
	if err != nil {
		t.Fatal(err)
	}
	account, _, _, err := sid.LookupAccount("") // in the language of this Windows
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(path); err == nil || !strings.Contains(err.Error(), "from "+account+" (icacls") {
		t.Errorf("got %v, want %s to be named", err, account)
	}
}
