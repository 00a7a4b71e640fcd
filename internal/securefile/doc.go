// Package securefile keeps files for the user of this process alone. Everybody else counts as others,
// except, on Windows, the system and its administrators, whom no access list keeps out. The package
// does not know what is in the files. It starts no goroutines.
//
// # Access lists on Windows
//
// The mode that Go reports on Windows says nothing about other users. So Check reads the owner and the
// access list, and refuses any right of others, with the icacls command that repairs it. An entry
// that denies does not excuse one that grants. The user's profile is private by default, but defaults
// are changed, and a token may be elsewhere. A check of what the current user may do says nothing
// about others. A file that a policy of the domain opens to a group is refused until it is repaired.
package securefile
