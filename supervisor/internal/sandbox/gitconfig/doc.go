// Package gitconfig decides which changes of a git config file a session may make. It compares two
// texts and reads no files. It parses only the form that git itself writes, and refuses a change
// that it could misunderstand.
//
// The package starts no goroutines.
//
// # Alternatives
//
// A git config can name programs, so a session must not write it. But git push -u, git remote add and
// git config user.name write it, in the user's own repository. So a session may change a list of plain
// settings, and the file is replaced by a checked copy. Settings of its own in an overlay would be two
// truths about one repository, to be merged later. A question to the user for each setting would
// exhaust the questions of a turn in one clone. An answer of git about the new text is not safe:
// until the rename the file belongs to the session, so git and the check could read different texts.
package gitconfig
