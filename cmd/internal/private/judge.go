package private

import "slices"

// Accounts of Windows that may have rights: nothing on the machine is hidden from
// them. Owner rights are those of the owner, who is judged too.
const (
	system         = "S-1-5-18"
	administrators = "S-1-5-32-544"
	everyone       = "S-1-1-0"
	ownerRights    = "S-1-3-4"
)

// An entry is one of the list of who may do what with a file of Windows.
type entry struct {
	kind  uint8  // as Windows numbers them
	flags uint8  // of its inheritance
	mask  uint32 // the rights
	who   string // a SID; "" when the kind keeps it elsewhere
}

// The kinds of entries that take rights away; all others give some.
var denials = []uint8{1, 6, 10, 12}

// inheritOnly entries are for what will be made in the directory.
const inheritOnly = 0x8

// trusted reports whether an account may own, read and change what is user's alone.
func trusted(who, user string) bool {
	return who == user || who == system || who == administrators
}

// others returns the accounts that list gives any right, each once; "" stands for one
// that cannot be told. What a denial takes away again does not count: it is there
// for a reason, but reading on takes more than one look.
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
