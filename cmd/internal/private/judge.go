package private

import "slices"

// Accounts of Windows that may have rights, because nothing on the machine is hidden from
// them. "Owner rights" belong to the owner, who is checked, too.
const (
	system         = "S-1-5-18"
	administrators = "S-1-5-32-544"
	everyone       = "S-1-1-0"
	ownerRights    = "S-1-3-4"
)

// An entry is an entry of the access list of a file on Windows.
type entry struct {
	kind  uint8  // as Windows numbers them
	flags uint8  // of its inheritance
	mask  uint32 // the rights
	who   string // a SID; "" when the kind keeps it elsewhere
}

// These kinds of entries take rights away. All other kinds grant some.
var denials = []uint8{1, 6, 10, 12}

// inheritOnly entries are for what will be made in the directory.
const inheritOnly = 0x8

// trusted reports whether an account may own, read and change a private file of user.
func trusted(who, user string) bool {
	return who == user || who == system || who == administrators
}

// others returns the accounts to which list gives any right, each once; "" stands for an
// unknown one. Denials are not subtracted: their effect would take more than a look at each
// entry.
func others(list []entry, user string) []string {
	var found []string
	for _, e := range list {
		switch {
		case e.flags&inheritOnly != 0, e.mask == 0, slices.Contains(denials, e.kind):
		case trusted(e.who, user), e.who == ownerRights:
		case !slices.Contains(found, e.who):
			found = append(found, e.who)
		}
	}
	return found
}
