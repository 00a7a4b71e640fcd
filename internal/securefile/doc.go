// Package securefile makes and checks files that only the user of this process can access. On
// Windows the system and its administrators also have access, because no access list can exclude
// them. The package does not know what is in the files. It starts no goroutines.
//
// # Access lists on Windows
//
// The mode that Go reports on Windows says nothing about other users. So Check reads the owner and
// the access list of a file. If others have any right, Check fails, with the icacls command that
// repairs the list. An entry that denies a right does not cancel one that grants it. A file that a
// domain policy opens to a group is refused until it is repaired.
//
// Trusting the user's profile was rejected. It is private by default, but users change defaults,
// and a token may be elsewhere. Checking the rights of the current user was rejected, because they
// say nothing about the rights of others.
package securefile
