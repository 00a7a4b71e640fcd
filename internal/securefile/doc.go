// Package securefile makes and checks files that only the user of this process may access.
// Everybody else counts as others. On Windows the system and its administrators do not, because no
// access list keeps them out. The package does not know the content of the files. It starts no
// goroutines.
//
// # Access lists on Windows
//
// The mode that Go reports on Windows says nothing about other users. So Check reads the owner and
// the access list of a file, and refuses it if others have any right. The error has the icacls
// command that repairs the file. An entry that denies a right does not outweigh one that grants it.
// A file that a policy of the domain opens to a group is refused until it is repaired.
//
// Trusting the user's profile was rejected. It is private by default, but defaults are changed, and
// a token may be elsewhere. Checking the access of the current user was rejected, because it says
// nothing about others.
package securefile
