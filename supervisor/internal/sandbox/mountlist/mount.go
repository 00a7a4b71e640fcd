package mountlist

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// A Mount is a path that differs in the session from the read-only view of the machine.
//
// Source is the directory that an OverlayMount covers (Path or a parent), the file that a
// ReplacedFile shows, or the target of a SymbolicLink.
type Mount struct {
	Path   Path
	Kind   MountKind
	Source Path
	Reason Reason `json:"-"` // why the session sees it in its home directory; "" for other mounts
}

// A Reason says why a session sees a path in its home directory.
type Reason string

// The reasons of a Mount.
const (
	ReasonDocument        Reason = "document"
	ReasonTool            Reason = "toolchain or library"
	ReasonCache           Reason = "cache"
	ReasonOnPath          Reason = "on PATH, or next to it"
	ReasonPlainSettings   Reason = "plain settings"
	ReasonWrittenSettings Reason = "settings, written without logins"
	ReasonInterpreter     Reason = "of the interpreter"
	ReasonWorkspace       Reason = "workspace"
	ReasonNamed           Reason = "named or allowed"
)

// A MountKind says what a mount shows and whether the session can write it.
type MountKind string

// The kinds of a Mount.
const (
	WritableBind   MountKind = "writable"  // the machine's files, writable
	PinnedBind     MountKind = "fixed"     // the same, but it cannot be renamed, because it is a mount point
	ReadOnlyBind   MountKind = "protected" // the machine's files, read-only
	GuardedFile    MountKind = "guarded"   // a git config file, which the guard protects alone, because some settings may change
	MaskedPath     MountKind = "hidden"    // a file or directory that cannot be opened
	OverlayMount   MountKind = "layer"     // the machine's files; writes go to a copy
	EmptyDir       MountKind = "private"   // an empty directory, which the session writes
	ReplacedFile   MountKind = "replaced"  // another file, read-only
	ReadOnlyParent MountKind = "covered"   // an empty directory with only mounts below it
	WritableParent MountKind = "built"     // the same, but the session can write it
	GrantableBind  MountKind = "readable"  // the machine's files, read-only unless the user grants more
	SymbolicLink   MountKind = "linked"    // a symbolic link in such a directory
)

// IsEmptyDir reports whether a mount is a private directory of the session, in which it sees only
// mounts and no other files of the machine.
func (k MountKind) IsEmptyDir() bool {
	return k == EmptyDir || k == ReadOnlyParent || k == WritableParent
}

// A Path is a file path whose bytes need not be UTF-8, so its JSON form is base64.
type Path string

// MarshalJSON encodes the path as base64.
func (p Path) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(p)) }

// UnmarshalJSON decodes a path from base64.
func (p *Path) UnmarshalJSON(text []byte) error {
	var b []byte
	err := json.Unmarshal(text, &b)
	*p = Path(b)
	return err
}

// IsOptional reports whether the sandbox is as tight without the mount, because the mount only shows
// files of the machine.
func (m Mount) IsOptional() bool { return m.Kind == GrantableBind || m.Kind == OverlayMount }

// IsSessionOnly reports whether a mount shows content that only the session has.
func (k MountKind) IsSessionOnly() bool {
	return k == OverlayMount || k == ReplacedFile || k.IsEmptyDir()
}

// BoundedName returns a file name that stands for a path: the kind, "-" and 32 hexadecimal digits. So
// its length does not depend on the path.
func BoundedName(kind, path string) string {
	sum := sha256.Sum256([]byte(path))
	return kind + "-" + hex.EncodeToString(sum[:16])
}
