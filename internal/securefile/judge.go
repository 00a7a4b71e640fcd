package securefile

import "slices"

// Accounts of Windows that may have rights, because they can read every file anyway. "Owner rights"
// belong to the owner, who is also checked.
const (
	systemSID         = "S-1-5-18"
	administratorsSID = "S-1-5-32-544"
	everyoneSID       = "S-1-1-0"
	ownerRightsSID    = "S-1-3-4"
)

// An aclEntry is an entry of the access list of a file on Windows.
type aclEntry struct {
	kind  uint8  // as Windows numbers them
	flags uint8  // of its inheritance
	mask  uint32 // the rights
	sid   string // a SID; "" when the kind keeps it elsewhere
}

// denyKinds are the kinds of entries that deny rights. All other kinds grant some.
var denyKinds = []uint8{1, 6, 10, 12}

// inheritOnlyFlag marks entries that apply only to new files in the directory.
const inheritOnlyFlag = 0x8

// isTrusted reports whether an account may own, read and change a private file of user.
func isTrusted(who, user string) bool {
	return who == user || who == systemSID || who == administratorsSID
}

// otherAccounts returns the accounts to which list gives any right, each once; "" stands for an
// unknown account. Denials are not subtracted, because their effect depends on the order of the
// entries.
func otherAccounts(list []aclEntry, user string) []string {
	var found []string
	for _, e := range list {
		switch {
		case e.flags&inheritOnlyFlag != 0, e.mask == 0, slices.Contains(denyKinds, e.kind):
		case isTrusted(e.sid, user), e.sid == ownerRightsSID:
		case !slices.Contains(found, e.sid):
			found = append(found, e.sid)
		}
	}
	return found
}
