package python

import (
	"testing"
	"unicode/utf16"
)

func TestReparseProblem(t *testing.T) {
	data := func(target string) []byte {
		var b []byte
		for _, u := range utf16.Encode([]rune("Microsoft.DesktopAppInstaller_8wekyb3d8bbwe\x00" + target + "\x000\x00")) {
			b = append(b, byte(u), byte(u>>8))
		}
		return append([]byte{0x1b, 0, 0, 0x80, 0, 0, 0, 0, 3, 0, 0, 0}, b...)
	}
	if got := reparseProblem(data(`C:\Program Files\WindowsApps\AppInstallerPythonRedirector.exe`)); got == "" {
		t.Error("got no objection to the alias of the store")
	}
	if got := reparseProblem(data(`C:\Program Files\WindowsApps\Python.3.12\python3.12.exe`)); got != "" {
		t.Errorf("got %q for a Python", got)
	}
}
