// Package homedir builds the home directory of a session. It contains only what the session may
// see: known caches and toolchains, documents, packages that interpreters find, and settings
// without logins.
//
// A [Rules] lists the links that are followed and the files that are hidden. A [Builder] adds
// mounts to a list, and a [SettingsWriter] writes the settings. The package mounts nothing and
// starts no goroutines.
package homedir
