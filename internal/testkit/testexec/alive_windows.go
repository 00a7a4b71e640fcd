package testexec

import "golang.org/x/sys/windows"

// IsAlive reports whether a process is still running.
func IsAlive(pid int) bool {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(h)
	got, err := windows.WaitForSingleObject(h, 0)
	return err != nil || got != windows.WAIT_OBJECT_0
}

// IsWine reports whether this is not Windows itself.
func IsWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}
