package python

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// Installers for Windows put python.exe on PATH, rarely a python3.exe.
var (
	commandNames       = []string{"python", "python3"}
	environmentPythons = []string{`Scripts\python.exe`, "python.exe"}
)

// isStoreAlias reports whether path is an alias for an app, which opens the Microsoft
// Store when that app is not installed. Any other Python is preferred to it.
func isStoreAlias(path string) bool {
	return strings.HasSuffix(strings.ToLower(filepath.Dir(path)), `\microsoft\windowsapps`)
}

// storeAliasProblem returns a problem if the reparse data of an alias names the Microsoft Store, or "" if
// it does not or cannot be read.
func storeAliasProblem(alias string) string {
	name, err := windows.UTF16PtrFromString(alias)
	if err != nil {
		return ""
	}
	h, err := windows.CreateFile(name, 0, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_EXISTING, windows.FILE_FLAG_OPEN_REPARSE_POINT|windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return ""
	}
	defer windows.CloseHandle(h)
	data := make([]byte, windows.MAXIMUM_REPARSE_DATA_BUFFER_SIZE)
	var n uint32
	if windows.DeviceIoControl(h, windows.FSCTL_GET_REPARSE_POINT, nil, 0, &data[0], uint32(len(data)), &n, nil) != nil {
		return ""
	}
	return reparseProblem(data[:n])
}

// reparseProblem returns the problem that storeAliasProblem reports for an alias with this reparse
// data.
func reparseProblem(data []byte) string {
	const redirector = "AppInstallerPythonRedirector"
	wide := utf16.Encode([]rune(redirector))
	if bytes.Contains(data, unsafe.Slice((*byte)(unsafe.Pointer(&wide[0])), 2*len(wide))) {
		return "opens the Microsoft Store; install Python there, or turn the alias off"
	}
	return ""
}

// launcherCandidates lists the Pythons that installers have registered, as the py launcher does:
// the version that PY_PYTHON names first, then the newest.
func (f *finder) launcherCandidates() []Candidate {
	found := f.registryCandidates(nil)
	name, _, _ := strings.Cut(f.Env["PY_PYTHON"], "-") // "3.12-32"
	if want := discovery.ParseVersion(name); want != nil {
		slices.SortStableFunc(found, func(a, b Candidate) int {
			return matchRank(b, want) - matchRank(a, want)
		})
	}
	return found
}

func matchRank(c Candidate, want discovery.Version) int {
	if discovery.ParseVersion(c.Version).StartsWith(want) {
		return 1
	}
	return 0
}

// registryRoots lists the registry keys of installers. 32-bit installers for the whole machine have a
// separate key.
var registryRoots = []struct {
	key  registry.Key
	view uint32
}{{registry.CURRENT_USER, 0}, {registry.LOCAL_MACHINE, registry.WOW64_64KEY}, {registry.LOCAL_MACHINE, registry.WOW64_32KEY}}

// registryCandidates lists the registered Pythons whose version starts with want, newest first.
// For the same version, the user's installation comes before the machine's.
func (f *finder) registryCandidates(want discovery.Version) []Candidate {
	var found []Candidate
	for _, root := range registryRoots {
		versions, err := registry.OpenKey(root.key, `Software\Python\PythonCore`, registry.ENUMERATE_SUB_KEYS|root.view)
		if err != nil {
			continue
		}
		names, _ := versions.ReadSubKeyNames(-1)
		_ = versions.Close()
		for _, name := range names { // "3.12", "3.12-32"
			text, _, _ := strings.Cut(name, "-")
			v := discovery.ParseVersion(text)
			if v == nil || !v.StartsWith(want) {
				continue
			}
			if path := readRegisteredPath(root.key, root.view, name); path != "" {
				found = append(found, Candidate{Source: "Python " + name + " in the registry", Path: path, Version: text, Note: versionProblem(v)})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Candidate) int {
		return slices.Compare(discovery.ParseVersion(b.Version), discovery.ParseVersion(a.Version))
	})
	return found
}

// readRegisteredPath returns the interpreter of one version, or "" if it is not in the registry.
func readRegisteredPath(root registry.Key, view uint32, name string) string {
	install, err := registry.OpenKey(root, `Software\Python\PythonCore\`+name+`\InstallPath`, registry.QUERY_VALUE|view)
	if err != nil {
		return ""
	}
	defer install.Close()
	if path, _, err := install.GetStringValue("ExecutablePath"); err == nil && filepath.IsAbs(path) {
		return path
	}
	if dir, _, err := install.GetStringValue(""); err == nil && filepath.IsAbs(dir) {
		return filepath.Join(dir, "python.exe")
	}
	return ""
}

// dataHome returns the directory where uv keeps its data on Windows.
func (f *finder) dataHome() string {
	if dir := f.Env["APPDATA"]; dir != "" {
		return dir
	}
	return filepath.Join(f.Home, `AppData\Roaming`)
}

// pyenvDir is the directory of pyenv for Windows, below the home directory.
const pyenvDir = `.pyenv\pyenv-win`

// isTrustedDir reports whether only the user can have put root into dir: root must belong to the user or
// to an administrator. Every account may create directories in C:\, and anywhere on other drives.
func isTrustedDir(dir, root string) bool {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return false
	}
	d, err := windows.GetNamedSecurityInfo(root, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return false
	}
	owner, _, err := d.Owner()
	return err == nil && (owner.Equals(user.User.Sid) ||
		owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) || owner.IsWellKnown(windows.WinLocalSystemSid))
}

// dllVersion reads the version from the name of the library next to python.exe, such as
// python312.dll.
func dllVersion(dir string) discovery.Version {
	libraries, _ := filepath.Glob(filepath.Join(dir, "python[23][0-9]*.dll"))
	for _, path := range libraries {
		digits := strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(filepath.Base(path)), "python"), ".dll")
		if v := discovery.ParseVersion(digits[:1] + "." + digits[1:]); v != nil {
			return v
		}
	}
	return nil
}
