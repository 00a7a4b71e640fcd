package sessiontest

// terminalPromises returns no tests of session.TerminalAccess, because their programs are shells.
func terminalPromises() []promise { return nil }
