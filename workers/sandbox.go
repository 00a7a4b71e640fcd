package workers

import (
	"errors"
	"fmt"
	"path/filepath"
)

// A Sandbox says what the code of a session may touch. It is data: the supervisor
// enforces it, or refuses to start the worker.
type Sandbox struct {
	// Level is how much may be written.
	Level SandboxLevel

	// Workspace is the absolute path of the directory that a session of level Workspace may
	// write; "" means Spec.Dir. The root, the home directory, their parents and the directory
	// for temporary files never become writable: such a session only reads, and begins with a
	// notice.
	Workspace string

	// Writable are more files and directories that may be written, absolute.
	Writable []string

	// AcceptPaths are the real paths of those in Writable where programs outside the session would run or
	// read what is written, such as directories on the PATH: named once more, because they are meant.
	AcceptPaths []string

	// Readable are more files and directories that the session sees, absolute. They are for places
	// that its home directory or its directory for temporary files does not have. The home
	// directory itself, what is hidden, and what holds that never becomes readable.
	Readable []string

	// Home is how much of the user's home directory the session sees; "" is HomeDocuments.
	Home HomeAccess

	// Protected are absolute paths in what may be written that stay as they are. One that is
	// not there cannot be made.
	Protected []string

	// Hidden are absolute paths of files and directories that the session can neither read nor
	// write, besides those of DefaultHidden and what the session's home directory does not have.
	Hidden []string

	// Layered are directories of which the session has a copy of its own, made as it
	// is written, absolute, besides the caches and libraries in the home directory. The copy is
	// removed with the session.
	Layered []string

	// Network is what the session may reach.
	Network NetworkAccess

	// AskUser holds a call that a person could allow until somebody has decided. Without it the
	// call is refused at once.
	AskUser bool

	// NoNotice leaves out the notice with which a confined session begins: what holds. It is for
	// programs that show Info.Sandbox themselves. Other notices of the sandbox still come.
	NoNotice bool

	// AcceptMechanism is what the user takes where namespaces cannot be had; "" is nothing, so that
	// such a session does not start.
	AcceptMechanism SandboxMechanism

	// Hosts are patterns of what a session with NetworkList may reach, as ParseHostPattern reads
	// them, or PackageHosts.
	Hosts []string
}

// PackageHosts stands, among Sandbox.Hosts, for the places from which pip, uv, npm and R
// install packages: those that the user's own configuration names, else the public ones.
const PackageHosts = "packages"

// A SandboxLevel is how much of the machine a session may write.
type SandboxLevel string

const (
	// ReadOnly sessions write nothing but temporary files and layers of their own.
	ReadOnly SandboxLevel = "read-only"
	// Workspace sessions write their workspace as well.
	Workspace SandboxLevel = "workspace"
	// Full sessions have all rights of their user: there is no sandbox.
	Full SandboxLevel = "full"
)

// ParseSandboxLevel is the level of that name.
func ParseSandboxLevel(name string) (SandboxLevel, error) {
	switch l := SandboxLevel(name); l {
	case ReadOnly, Workspace, Full:
		return l, nil
	}
	return "", fmt.Errorf("no such sandbox: %q; there is read-only, workspace and full", name)
}

// HomeAccess is how much of a home directory a session sees.
type HomeAccess string

const (
	// HomeDocuments shows what has a name without a dot, and what HomeTools shows.
	HomeDocuments HomeAccess = "documents"
	// HomeTools shows toolchains, caches, libraries and plain settings, besides what the sandbox names.
	HomeTools HomeAccess = "tools"
)

// A NetworkAccess is what a session may reach.
type NetworkAccess string

const (
	// NetworkNone leaves a session its own loopback, at which its own servers listen.
	NetworkNone NetworkAccess = "none"
	// NetworkList leaves a session its own loopback, and the TCP ports of the hosts in
	// Sandbox.Hosts, by name.
	NetworkList NetworkAccess = "list"
	// NetworkFull leaves a session the network of its user.
	NetworkFull NetworkAccess = "full"
)

// Confines reports whether there is anything to enforce.
func (s *Sandbox) Confines() bool { return s != nil && s.Level != Full }

// String describes the rights in a few words.
func (s *Sandbox) String() string {
	if !s.Confines() {
		return string(Full)
	}
	words := string(s.Level)
	for _, dir := range s.Writable {
		words += ", writes " + dir
	}
	for _, path := range s.Readable {
		words += ", reads " + path
	}
	for _, path := range s.Protected {
		words += ", keeps " + path
	}
	if s.Home == HomeTools {
		words += ", home " + string(s.Home)
	}
	if s.Network != NetworkList {
		words += ", network " + string(s.Network)
	}
	for _, host := range s.Hosts {
		words += ", reaches " + host
	}
	if s.AcceptMechanism != "" {
		words += ", accepts " + string(s.AcceptMechanism)
	}
	return words
}

// Validate reports what cannot be meant.
func (s *Sandbox) Validate() error {
	if s == nil {
		return nil
	}
	if _, err := ParseSandboxLevel(string(s.Level)); err != nil {
		return fmt.Errorf("workers: %w", err)
	}
	if n := s.Network; n != NetworkNone && n != NetworkList && n != NetworkFull && (n != "" || s.Confines()) {
		return fmt.Errorf("workers: no such network for a sandbox: %q; there is none, list and full", n)
	}
	if h := s.Home; h != "" && h != HomeDocuments && h != HomeTools {
		return fmt.Errorf("workers: a sandbox does not know the home %q; there is documents and tools", h)
	}
	if _, err := ParseSandboxMechanism(string(s.AcceptMechanism)); err != nil {
		return fmt.Errorf("workers: %w", err)
	}
	if err := s.validateHosts(); err != nil {
		return err
	}
	if s.Level == Full && (len(s.Writable) > 0 || len(s.Readable) > 0 || len(s.Hidden) > 0 || len(s.Layered) > 0) {
		return errors.New("workers: a session with the sandbox full may write and read everything: leave the directories out, or choose workspace")
	}
	if s.Workspace != "" && !filepath.IsAbs(s.Workspace) {
		return fmt.Errorf("workers: the workspace is not absolute: %q", s.Workspace)
	}
	for _, dirs := range [][]string{s.Writable, s.AcceptPaths, s.Readable, s.Protected, s.Hidden, s.Layered} {
		for _, d := range dirs {
			if !filepath.IsAbs(d) {
				return fmt.Errorf("workers: a path of the sandbox is not absolute: %q", d)
			}
		}
	}
	return nil
}

// maxHosts bounds the patterns of one session: each connection is compared with all.
const maxHosts = 1000

func (s *Sandbox) validateHosts() error {
	if len(s.Hosts) > 0 && s.Network != NetworkList {
		return fmt.Errorf("workers: hosts are for the network list, and this sandbox has %q", s.Network)
	}
	if len(s.Hosts) > maxHosts {
		return fmt.Errorf("workers: a sandbox may name %d hosts, and this one names %d", maxHosts, len(s.Hosts))
	}
	for _, h := range s.Hosts {
		if h == PackageHosts {
			continue
		}
		if _, err := ParseHostPattern(h); err != nil {
			return fmt.Errorf("workers: %w", err)
		}
	}
	return nil
}

// ProtectedNames are the names of files that programs outside a session run or trust without
// asking: settings of editors, clients of models and clouds. At the top of each directory that is
// written, and of each repository, they stay as they are.
func ProtectedNames() []string {
	return []string{
		".vscode", ".idea", ".zed", ".claude", ".codex", ".agents", ".aws", ".cursor", ".gemini", ".mcp.json", ".envrc",
		".amazonq", ".continue", ".crush.json", "crush.json", ".kiro", ".opencode", "opencode.json", "opencode.jsonc", ".qwen", ".roo", ".windsurf",
		".aider.conf.yml", ".amp", ".augment", ".clinerules/hooks", ".continuerc.json", ".copilot", ".crush", ".devcontainer", ".factory", ".github/copilot", ".github/hooks", ".github/lsp.json", ".github/mcp.json",
		".gitlab/duo", ".goose", ".grok", ".helix", ".iflow", ".junie", ".kilocode", ".kimi", ".openhands", ".pi", ".qoder", ".rovodev", ".trae", ".vibe",
		".config/mise", ".config/mise.toml", ".mise", ".mise.local.toml", ".mise.toml", ".miserc.toml", "mise.local.toml", "mise.toml", // what a shell runs that enters the directory, as .envrc
		".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".jj/repo/config.toml", ".sl/config", "_darcs/prefs", ".pijul/config", // settings of Mercurial, Jujutsu, Sapling, Darcs and Pijul, which name hooks and programs
	}
}

// DefaultHidden are the places below a home directory where secrets are kept.
func DefaultHidden(home string) []string {
	return joinHome(home, ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".boto",
		".netrc", ".pgpass", ".my.cnf", ".git-credentials", ".pypirc", ".npmrc", ".vault-token", ".terraform.d",
		".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties",
		".config/turnstone", ".config/gcloud", ".config/gh", ".config/glab-cli", ".config/hub", ".config/op", ".config/doctl", ".config/git/credentials",
		".config/containers/auth.json", ".config/rclone", ".config/sops", ".config/age", ".password-store",
		".local/share/keyrings", ".local/share/kwalletd", ".local/share/gnome-keyring", ".kaggle", ".cache/huggingface/token", ".huggingface/token",
		".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge",
		"Library/Keychains", "Library/Cookies", "Library/Safari", "Library/Application Support/Google/Chrome", "Library/Application Support/Firefox",
		".claude", ".claude.json", ".codex", ".gemini", ".cursor", ".config/github-copilot",
		".bash_history", ".zsh_history", ".python_history", ".Rhistory", ".psql_history", ".mysql_history", ".node_repl_history")
}

func joinHome(home string, names ...string) []string {
	for i, n := range names {
		names[i] = filepath.Join(home, filepath.FromSlash(n))
	}
	return names
}

// HomeVariables returns the variables that name the directories of tools, each with the
// directory below the home directory that a tool uses, and makes, when it is not set.
func HomeVariables() map[string]string {
	return map[string]string{
		"XDG_CACHE_HOME":  ".cache",
		"XDG_CONFIG_HOME": ".config",
		"PYTHONUSERBASE":  ".local",
		"R_LIBS_USER":     "R",
		"GOPATH":          "go",
	}
}
