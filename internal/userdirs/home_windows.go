package userdirs

// ownHome returns the directory of the user's profile.
func ownHome(getenv func(string) string) string { return getenv("USERPROFILE") }
