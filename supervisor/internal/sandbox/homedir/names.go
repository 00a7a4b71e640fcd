package homedir

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// A session's home directory is built from what it may see. A list of what to hide could never be
// complete, and a mount over a name ends when a program outside replaces the file. Names that are
// not listed here do not exist for the session, whenever they are created.

// ownDirNames are directories that hold logins next to other files. They are empty for the session,
// which may write them. The names of the first line are always created, because tools create them
// if they are missing; the others only if the machine has them.
var ownDirNames = []string{
	".config", ".local", ".cache", ".cargo", ".gradle", ".julia", ".m2", ".npm", ".nuget",
	".bun", ".bundle", ".cabal", ".conda", ".deno", ".dotnet", ".gem", ".ghcup", ".ipython", ".jupyter", ".pixi", ".stack",
}

const expectedOwnDirs = 9

// LayeredNames are caches, libraries and toolchains. The session writes a copy of them. A cache
// that is not listed here makes tools slower. Without a network, packages that no lock file names
// are then missing. Caches of server responses may contain what was sent to the servers, including
// logins. Of those only uv's is listed, because uv finds nothing offline without it.
var LayeredNames = []string{
	"R", "go", ".keras", ".matplotlib", ".TinyTeX", ".virtualenvs",
	".bun/install", ".bundle/cache", ".cabal/packages", ".cabal/store", ".cargo/bin", ".cargo/git", ".cargo/registry", ".conda/envs", ".conda/pkgs",
	".deno/bin", ".dotnet/host", ".dotnet/sdk", ".dotnet/shared", ".dotnet/tools", ".gem/ruby", ".ghcup/bin", ".ghcup/ghc", ".gradle/caches", ".gradle/wrapper",
	".ipython/profile_default/startup",
	".julia/artifacts", ".julia/clones", ".julia/compiled", ".julia/conda", ".julia/environments", ".julia/juliaup", ".julia/packages", ".julia/registries", ".julia/scratchspaces",
	".m2/repository", ".npm/_cacache/content-v2", ".npm/_npx", ".nuget/packages", ".pixi/bin", ".pixi/envs", ".stack/programs", ".stack/snapshots",
	".local/bin", ".local/include", ".local/lib", ".local/share/fonts", ".local/share/jupyter/kernels", ".local/share/jupyter/lab", ".local/share/jupyter/nbextensions",
	".local/share/man", ".local/share/mise/installs", ".local/share/mise/shims", ".local/share/pnpm", ".local/share/r-miniconda",
	".local/share/uv/python", ".local/share/virtualenv", ".local/share/virtualenvs",
	".cache/R/R.cache", ".cache/R/pkgcache", ".cache/R/renv", ".cache/ccache", ".cache/deno/deps", ".cache/deno/gen", ".cache/deno/npm", ".cache/deno/remote", ".cache/fontconfig", ".cache/go-build",
	".cache/huggingface/datasets", ".cache/huggingface/hub", ".cache/huggingface/modules", ".cache/matplotlib", ".cache/ms-playwright/chromium*-[0-9]*", ".cache/ms-playwright/ffmpeg-*", ".cache/ms-playwright/firefox-*", ".cache/ms-playwright/webkit-*", ".cache/mypy", ".cache/node-gyp", ".cache/numba",
	".cache/pip/wheels", ".cache/pre-commit", ".cache/pypoetry/artifacts", ".cache/pypoetry/virtualenvs", ".cache/ruff", ".cache/torch", ".cache/typst", ".cache/uv", ".cache/yarn",
	".config/fontconfig", ".config/matplotlib", ".config/mypy", ".config/ruff",
	".local/pipx/py", ".local/pipx/shared", ".local/share/pipx/py", ".local/share/pipx/shared",
}

// ReadableNames are toolchains, which the session only reads.
var ReadableNames = []string{
	"Library/Python", "Library/R", ".asdf", ".elan", ".juliaup", ".nvm", ".opam", ".pyenv", ".rbenv", ".rustup", ".volta", ".cache/turnstone",
}

// WithheldNames are in toolchains and hold logins.
var WithheldNames = []string{".opam/plugins/opam-publish"}

// ToolDirs contain programs that were each installed separately. Next to them are the addresses
// from which they were installed, with logins.
var ToolDirs = []string{".local/pipx/venvs", ".local/share/pipx/venvs", ".local/share/uv/tools"}

// plainSettings are settings that hold no logins.
var plainSettings = []string{".R/Makevars", ".cargo/env", ".config/git/attributes", ".config/git/ignore", ".fonts", ".inputrc", ".terminfo"}

// toolSubdirs are directories next to a directory of programs that the programs need.
var toolSubdirs = []string{"include", "lib", "lib64", "libexec", "share"}

// ProgramDataNames are names without a dot in a home directory that are not the user's documents.
// Programs keep their own data there, such as mail and logins.
var ProgramDataNames = []string{
	"AppData", "Application Data", "Cookies", "Library", "Local Settings", "snap",
	"Mail", "Maildir", "Monero", "Postman", "Zotero", "airflow", "dead.letter", "mail", "mbox", "nsmail",
}

// keyFilePatterns match names, in lower case, of key files in a home directory, where programs,
// cloud consoles and people save them.
var keyFilePatterns = []string{
	"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.ppk", "*.p8", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.keytab", "*.agekey", "*secret*.asc", "*private*.asc",
	"*.kdb", "*.kdbx", "*.psafe3", "*.ovpn", "wallet*.dat", "*.wallet", "*.publishsettings", "*.pgpass", "*kubeconfig*", "*.tfstate*", "ntuser*",
	"client_secret*.json", "credentials*.json", "*credentials*.csv", "*accesskeys*.csv", "rootkey*.csv", "service-account*.json", "service_account*.json", "serviceaccount*.json", "*firebase-adminsdk*.json", "adminsdk*.json",
	"_netrc", "secret.*", "secrets.*", "token.json", "token.pickle", "token.txt", "*api_key*", "*apikey*", "*passwords*", "bitwarden_export*", "lastpass*", "*.1pux", "*recovery-codes*", "*recovery_codes*", "*backup-codes*", "*backup_codes*",
}

// isProgramData reports whether a name in a home directory is not a document.
func isProgramData(e fs.DirEntry) bool {
	return strings.HasPrefix(e.Name(), ".") || slices.Contains(ProgramDataNames, e.Name()) || !e.IsDir() && isKeyFile(e.Name())
}

// isKeyFile reports whether a name looks like that of a key file.
func isKeyFile(name string) bool {
	return slices.ContainsFunc(keyFilePatterns, func(pattern string) bool {
		matches, _ := filepath.Match(pattern, strings.ToLower(name))
		return matches
	})
}

// KernelDirs show state of the kernel and of running programs.
var KernelDirs = []string{"/proc", "/sys", "/dev", "/run", "/var/run"}

// SystemDirs contain the machine's programs and what they read. A session of root could write them.
var SystemDirs = []string{
	"/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/sbin", "/snap", "/usr", "/var/lib", "/var/spool",
	"/Applications", "/Library", "/System", "/private/etc",
}
