package mcpclient

// safeVariables are the environment variables that every server inherits. None of them holds a
// secret.
func safeVariables() []string {
	return []string{"PATH", "PATHEXT", "SystemRoot", "SystemDrive", "windir", "ComSpec", "USERPROFILE", "HOMEDRIVE", "HOMEPATH",
		"APPDATA", "LOCALAPPDATA", "ProgramData", "ProgramFiles", "ProgramFiles(x86)", "TEMP", "TMP", "USERNAME"}
}
