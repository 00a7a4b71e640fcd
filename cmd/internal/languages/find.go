package languages

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelspec"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
)

// All returns all languages in the order of the help; the first is the default. An error
// means that the user's file cannot be read and that its languages are missing.
func All() ([]Language, error) {
	own, err := userLanguages()
	return append(builtinLanguages(), own...), err
}

// Available returns all languages that can be determined, ignoring an unreadable user
// file.
func Available() []Language {
	all, _ := All()
	return all
}

// Find finds a language by one of its names, in upper or lower case. "" is the first language. An
// unknown name is a usage error that suggests a similar name or lists the languages.
func Find(name string) (Language, error) {
	if kernel, ok := cutKernelPrefix(name); ok {
		return findKernel(kernel)
	}
	all, fileErr := All()
	if name == "" {
		return all[0], nil
	}
	var names []string
	for _, l := range all {
		if l.hasName(strings.ToLower(name)) {
			return l, nil
		}
		names = append(names, l.Name)
	}
	if fileErr != nil {
		return Language{}, fileErr
	}
	long := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return len(n) < 3 }) // a one-letter name is similar to any word
	if n := cmdkit.NearestName(strings.ToLower(name), long); n != "" {
		return Language{}, cmdkit.UsageErrorf("unknown language %q; did you mean %s?", name, n)
	}
	return Language{}, cmdkit.UsageErrorf("unknown language %q (have %s); add one with --worker or in %s; a Jupyter kernel is %sNAME", name, strings.Join(names, ", "), workersFile(), JupyterPrefix)
}

// OfSession returns the language of an existing session, even if this command has no settings for its worker.
func OfSession(name string) Language {
	l, err := Find(name)
	if kernel, ok := cutKernelPrefix(name); ok && err != nil {
		return kernelLanguage(kernelspec.KernelSpec{Name: kernel})
	}
	if err != nil || name == "" {
		return newWorkerLanguage(cmp.Or(name, "session"), userconfig.CustomWorker{}, "")
	}
	return l
}

// OfFile returns the language whose scripts have the extension of this file, or "".
func OfFile(path string) string {
	extension := strings.TrimPrefix(filepath.Ext(path), ".")
	for _, l := range Available() {
		if extension != "" && extension != "txt" && strings.EqualFold(extension, l.Export.Extension) {
			return l.Name
		}
	}
	return ""
}

// Has reports whether a daemon currently has a language. It looks for Jupyter kernels only if name
// stands for one.
func Has(name string) bool {
	if kernel, ok := strings.CutPrefix(name, JupyterPrefix); ok {
		return slices.ContainsFunc(InstalledKernels(), func(k kernelspec.KernelSpec) bool { return k.Name == kernel })
	}
	return slices.ContainsFunc(Available(), func(l Language) bool { return l.Name == name })
}

// Names returns the languages that a daemon has. It finds the Jupyter kernels with its own
// environment.
func Names() []string {
	var names []string
	for _, l := range Available() {
		names = append(names, l.Name)
	}
	for _, k := range InstalledKernels() {
		names = append(names, JupyterPrefix+k.Name)
	}
	return names
}

// Choices returns the names of all languages, as the help shows a choice.
func Choices() string {
	var names []string
	for _, l := range Available() {
		names = append(names, l.Name)
	}
	return strings.Join(names, "|")
}

// LangUsage describes --lang in the help of a command.
func LangUsage() string {
	return "`" + Choices() + "` the language"
}

// FormatUsage describes --format in the help of a command.
func FormatUsage() string {
	var all []string
	for _, l := range Available() {
		for _, f := range l.Export.Formats() {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return "`" + strings.Join(all, "|") + "` the format; default a script"
}

// A LanguageFlag is the value of --lang: the canonical name of the language, if it is known.
type LanguageFlag struct{ Target *string }

func (l LanguageFlag) String() string {
	if l.Target == nil {
		return ""
	}
	return *l.Target
}

// Set accepts an unknown name; it is rejected when the language is needed.
func (l LanguageFlag) Set(name string) error {
	if known, err := Find(name); err == nil && name != "" {
		name = known.Name
	}
	*l.Target = name
	return nil
}
