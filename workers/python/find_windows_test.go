package python_test

import (
	"path/filepath"
	"testing"
)

const (
	homeVariable      = "USERPROFILE"
	exeSuffix         = ".exe"
	environmentPython = `Scripts\python.exe`

	firstCommand, secondCommand = "python", "python3"
)

func TestFind_StoreAliasCountsAfterEveryOtherPython(t *testing.T) {
	p := newPlace(t)
	apps := filepath.Join(p.home, `AppData\Local\Microsoft\WindowsApps`)
	alias := p.python(filepath.Join(apps, "python.exe"))
	p.set("PATH=" + apps + ";" + p.bin)
	p.want("", alias)
	p.want("", p.python(filepath.Join(p.bin, "python.exe")))
}
