package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
)

// A Policy describes what the code of a session may access. It is data: the supervisor
// enforces it, or refuses to start the worker.
type Policy struct {
	// Level says which files may be written.
	Level Level

	// Workspace is the absolute path of the directory that a session of level Workspace may write;
	// "" means workers.Spec.Dir. The root, the home directory, their parents and the directory for
	// temporary files never become writable. A session with such a workspace is read-only and
	// begins with a notice.
	Workspace string

	// Writable lists more writable files and directories, as absolute paths.
	Writable []string

	// AcceptPaths confirms entries of Writable by repeating their real paths. This is needed where
	// programs outside the session would run or read what is written, such as directories on the
	// PATH.
	AcceptPaths []string

	// Readable lists more files and directories that the session sees, as absolute paths. It is for
	// paths outside the session's home directory and its directory for temporary files. The home
	// directory itself, hidden paths, and their parents never become readable.
	Readable []string

	// Home says how much of the user's home directory the session sees; "" is HomeDocuments.
	Home HomeAccess

	// Protected lists absolute paths in writable directories that cannot be changed. A protected
	// path that does not exist cannot be created.
	Protected []string

	// Hidden lists absolute paths of files and directories that the session can neither read nor
	// write. DefaultHidden, and whatever the session's home directory leaves out, are hidden as
	// well.
	Hidden []string

	// Layered lists absolute paths of directories of which the session gets a private copy on
	// write. The caches and libraries in the home directory are layered as well. The copy is
	// removed with the session.
	Layered []string

	// Network says what the session may reach. A policy that confines needs it.
	Network NetworkAccess

	// AskUser blocks a call that the user could allow until the user has decided. Without it the
	// call is refused at once.
	AskUser bool

	// NoNotice omits the notice about the sandbox at the start of a sandboxed session. It is for
	// programs that show session.Info.Sandbox themselves. Other notices of the sandbox still
	// appear.
	NoNotice bool

	// AcceptMechanism is the mechanism that the user accepts if namespaces are not available. With
	// "", the session then does not start.
	AcceptMechanism Mechanism

	// Hosts lists what a session with NetworkList may reach: patterns in the form of
	// ParseHostPattern, or PackageHosts.
	Hosts []string
}

// PackageHosts in Policy.Hosts stands for the hosts from which pip, uv, npm and R install packages.
// They are those in the user's configuration, otherwise the public ones.
const PackageHosts = "packages"

// A Level says how much of the machine a session may write.
type Level string

const (
	// ReadOnly sessions write nothing but temporary files and their own layers.
	ReadOnly Level = "read-only"
	// Workspace sessions may also write their workspace.
	Workspace Level = "workspace"
	// Full sessions have all permissions of their user: there is no sandbox.
	Full Level = "full"
)

// ParseLevel returns the level with this name.
func ParseLevel(name string) (Level, error) {
	switch l := Level(name); l {
	case ReadOnly, Workspace, Full:
		return l, nil
	}
	return "", fmt.Errorf("unknown sandbox %q; use read-only, workspace or full", name)
}

// HomeAccess says how much of a home directory a session sees.
type HomeAccess string

const (
	// HomeDocuments shows everything whose name has no leading dot, and what HomeTools shows.
	HomeDocuments HomeAccess = "documents"
	// HomeTools shows toolchains, caches, libraries and harmless settings, besides the paths
	// that the sandbox names.
	HomeTools HomeAccess = "tools"
)

// A NetworkAccess says what a session may reach in the network.
type NetworkAccess string

const (
	// NetworkNone gives a session only a private loopback, for its own servers.
	NetworkNone NetworkAccess = "none"
	// NetworkList gives a session a private loopback, and the TCP ports of the hosts in
	// Policy.Hosts, by name.
	NetworkList NetworkAccess = "list"
	// NetworkFull gives a session the network of its user.
	NetworkFull NetworkAccess = "full"
)

// Confines reports whether there is anything to enforce. A nil policy confines nothing.
func (s *Policy) Confines() bool { return s != nil && s.Level != Full }

// String describes the permissions in a few words.
func (s *Policy) String() string {
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

// Validate returns an error for a policy that makes no sense.
func (s *Policy) Validate() error {
	if s == nil {
		return nil
	}
	if _, err := ParseLevel(string(s.Level)); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if s.Network == "" && s.Confines() {
		return errors.New("sandbox: the network is not set; use none, list or full")
	}
	if n := s.Network; n != NetworkNone && n != NetworkList && n != NetworkFull && n != "" {
		return fmt.Errorf("sandbox: unknown network %q; use none, list or full", n)
	}
	if h := s.Home; h != "" && h != HomeDocuments && h != HomeTools {
		return fmt.Errorf("sandbox: unknown home %q; use documents or tools", h)
	}
	if _, err := ParseMechanism(string(s.AcceptMechanism)); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if err := s.validateHosts(); err != nil {
		return err
	}
	if s.Level == Full && (len(s.Writable) > 0 || len(s.Readable) > 0 || len(s.Hidden) > 0 || len(s.Layered) > 0) {
		return errors.New("sandbox: a session with the sandbox full may read and write everything; leave the directories out or use workspace")
	}
	if s.Workspace != "" && !filepath.IsAbs(s.Workspace) {
		return fmt.Errorf("sandbox: the workspace %q is not an absolute path", s.Workspace)
	}
	for _, dirs := range [][]string{s.Writable, s.AcceptPaths, s.Readable, s.Protected, s.Hidden, s.Layered} {
		for _, d := range dirs {
			if !filepath.IsAbs(d) {
				return fmt.Errorf("sandbox: the path %q is not absolute", d)
			}
		}
	}
	return nil
}

// maxHosts bounds the patterns of one session, because each connection is compared with all of
// them.
const maxHosts = 1000

func (s *Policy) validateHosts() error {
	if len(s.Hosts) > 0 && s.Network != NetworkList {
		return fmt.Errorf("sandbox: hosts need the network list, but this policy has %q", s.Network)
	}
	if len(s.Hosts) > maxHosts {
		return fmt.Errorf("sandbox: a policy may list %d hosts, but this one lists %d", maxHosts, len(s.Hosts))
	}
	for _, h := range s.Hosts {
		if h == PackageHosts {
			continue
		}
		if _, err := ParseHostPattern(h); err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
	}
	return nil
}

// ProtectedNames lists the names of files that programs outside a session run or trust without
// asking, such as settings of editors, AI clients and cloud tools. They cannot be changed at the
// top of each writable directory and of each repository.
func ProtectedNames() []string {
	return []string{
		".vscode", ".idea", ".zed", ".claude", ".codex", ".agents", ".aws", ".cursor", ".gemini", ".mcp.json", ".envrc",
		".amazonq", ".continue", ".crush.json", "crush.json", ".kiro", ".opencode", "opencode.json", "opencode.jsonc", ".qwen", ".roo", ".windsurf",
		".aider.conf.yml", ".amp", ".augment", ".clinerules/hooks", ".continuerc.json", ".copilot", ".crush", ".devcontainer", ".factory", ".github/copilot", ".github/hooks", ".github/lsp.json", ".github/mcp.json",
		".gitlab/duo", ".goose", ".grok", ".helix", ".iflow", ".junie", ".kilocode", ".kimi", ".openhands", ".pi", ".qoder", ".rovodev", ".trae", ".vibe",
		".config/mise", ".config/mise.toml", ".mise", ".mise.local.toml", ".mise.toml", ".miserc.toml", "mise.local.toml", "mise.toml", // run by a shell that enters the directory, like .envrc
		".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".jj/repo/config.toml", ".sl/config", "_darcs/prefs", ".pijul/config", // settings of Mercurial, Jujutsu, Sapling, Darcs and Pijul; they name hooks and programs
	}
}

// DefaultHidden lists the paths below a home directory that contain secrets.
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

// HomeVariables returns the environment variables that name the directories of tools. Each comes
// with a directory below the home directory, which the tool uses, and creates, if the variable is
// not set.
func HomeVariables() map[string]string {
	return map[string]string{
		"XDG_CACHE_HOME":  ".cache",
		"XDG_CONFIG_HOME": ".config",
		"PYTHONUSERBASE":  ".local",
		"R_LIBS_USER":     "R",
		"GOPATH":          "go",
	}
}
