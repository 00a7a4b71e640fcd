// Package securefile keeps files that only the user of this process can access. On Windows the system
// and its administrators also have access, because no access list can exclude them. The package does
// not know what is in the files. It starts no goroutines.
//
// # Access lists on Windows
//
// On Windows the mode that Go reports says nothing about other users. So Check reads the owner and the
// access list. If others have any right, Check fails, with the icacls command that repairs the list. An
// entry that denies does not cancel one that grants. The user's profile is private by default, but users
// change defaults, and a token may be elsewhere. The rights of the current user say nothing about the
// rights of others. If a domain policy opens a file to a group, the file is refused until it is repaired.
package securefile
