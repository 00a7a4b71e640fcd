// Package gitconfig decides which changes of a git config file a session may make. It compares two
// texts and reads no files. It parses only the form that git itself writes, and refuses a change
// that it could misunderstand.
//
// The package starts no goroutines.
//
// # Alternatives
//
// A git config can name programs, so a session must not write it freely. But git push -u, git
// remote add and git config user.name write the config of the user's own repository. So a session
// may change a list of plain settings, and a checked copy replaces the file.
//
// An overlay with the session's own settings was rejected: one repository would have two versions
// of its settings, to be merged later. A question to the user for each setting was rejected,
// because one clone would use up the questions of a turn. Asking git about the new text was
// rejected as unsafe. The session can write the file until the rename, so git and the check could
// read different texts.
package gitconfig
