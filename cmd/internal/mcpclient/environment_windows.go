package mcpclient

// safeVariables are those of our own environment that every server gets. None of them has a
// secret.
func safeVariables() []string {
	return []string{"PATH", "PATHEXT", "SystemRoot", "SystemDrive", "windir", "ComSpec", "USERPROFILE", "HOMEDRIVE", "HOMEPATH",
		"APPDATA", "LOCALAPPDATA", "ProgramData", "ProgramFiles", "ProgramFiles(x86)", "TEMP", "TMP", "USERNAME"}
}
