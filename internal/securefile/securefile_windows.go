package securefile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// MakeDir creates a directory and its missing parents. Files that are created in it are also
// private.
func MakeDir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	access, err := ownerOnlyAttributes("OICI")
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	if err := windows.CreateDirectory(name, access); err != nil && !errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

// CreateTemp creates a file in dir with a new name that begins with prefix. The caller closes and
// removes it.
func CreateTemp(dir, prefix string) (*os.File, error) {
	access, err := ownerOnlyAttributes("")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, prefix+rand.Text())
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, access,
		windows.CREATE_NEW, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}

// Open opens a file for reading, so that it can still be renamed and removed.
func Open(path string) (*os.File, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_EXISTING, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}

// Rename renames a file. If the new name exists, the error is fs.ErrExist.
func Rename(from, to string) error {
	old, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	if err := windows.MoveFileEx(old, name, 0); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// ownerOnlyAttributes gives all rights to the user of this process and none to others. Nothing is
// inherited from the parent directory. flags say what inherits these rights.
func ownerOnlyAttributes(flags string) (*windows.SecurityAttributes, error) {
	user, err := currentUser()
	if err != nil {
		return nil, err
	}
	descriptor, err := windows.SecurityDescriptorFromString("D:P(A;" + flags + ";FA;;;" + user + ")")
	if err != nil {
		return nil, err
	}
	a := &windows.SecurityAttributes{SecurityDescriptor: descriptor}
	a.Length = uint32(unsafe.Sizeof(*a))
	return a, nil
}

func currentUser() (string, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", fmt.Errorf("cannot determine the user of this process: %w", err)
	}
	return user.User.Sid.String(), nil
}

// Check returns an error if path is neither a regular file nor a directory. It also returns an
// error if path belongs to another user, or if others have access to it. The error says how to
// remove that access.
func Check(path string) error {
	i, err := statFileOrDir(path)
	if err != nil {
		return err
	}
	user, err := currentUser()
	if err != nil {
		return err
	}
	owner, list, err := readACL(path)
	if err != nil {
		return fmt.Errorf("cannot determine who has rights to %s: %w", path, err)
	}
	if !isTrusted(owner, user) {
		return fmt.Errorf("%s belongs to %s, who can change its permissions; remove it", path, accountName(owner))
	}
	found := otherAccounts(list, user)
	if len(found) == 0 {
		return nil
	}
	grant, names, remove := "F", make([]string, len(found)), ""
	if i.IsDir() {
		grant = "(OI)(CI)F"
	}
	for i, who := range found {
		names[i] = accountName(who)
		if who != "" {
			remove += ` "*` + who + `"`
		}
	}
	if remove != "" {
		remove = " /remove:g" + remove
	}
	return fmt.Errorf(`others have rights to %s; revoke them from %s (icacls "%s" /inheritance:r /grant:r "*%s:%s"%s)`,
		path, strings.Join(names, " and "), filepath.Clean(path), user, grant, remove)
}

// accountName returns the name of an account.
func accountName(who string) string {
	if who == "" {
		return "an unknown account"
	}
	if sid, err := windows.StringToSid(who); err == nil {
		if account, domain, _, err := sid.LookupAccount(""); err == nil {
			return strings.TrimPrefix(domain+`\`+account, `\`)
		}
	}
	return who
}

// readACL returns the owner and the access list of path. A file without a list is open to
// everyone.
func readACL(path string) (owner string, list []aclEntry, err error) {
	descriptor, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return "", nil, err
	}
	defer runtime.KeepAlive(descriptor) // what follows points into it
	sid, _, err := descriptor.Owner()
	if err != nil {
		return "", nil, err
	}
	owner = sid.String()
	acl, _, err := descriptor.DACL()
	if errors.Is(err, windows.ERROR_OBJECT_NOT_FOUND) || err == nil && acl == nil {
		return owner, []aclEntry{{sid: everyoneSID, mask: windows.GENERIC_ALL}}, nil
	} else if err != nil {
		return "", nil, err
	}
	for i := range uint32(acl.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(acl, i, &ace); err != nil {
			return "", nil, err
		}
		e := aclEntry{kind: ace.Header.AceType, flags: ace.Header.AceFlags, mask: uint32(ace.Mask)}
		switch e.kind {
		case windows.ACCESS_ALLOWED_ACE_TYPE, accessAllowedCallback:
			e.sid = (*windows.SID)(unsafe.Pointer(&ace.SidStart)).String()
		}
		list = append(list, e)
	}
	return owner, list, nil
}

// accessAllowedCallback is the kind of an entry with a condition. Its account is at the same offset
// as in an entry without one.
const accessAllowedCallback = 9
