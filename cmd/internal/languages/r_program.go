package languages

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/turnstone-repl/turnstone/workers"
)

// rInit makes R run a file right after the user's profile, with the default packages attached as at
// the prompt.
func rInit(m RuntimeSettings) (env []string, file string) {
	if m.InitFile == "" {
		return m.Env, ""
	}
	users, restore := `if (file.exists(".Rprofile")) ".Rprofile" else "~/.Rprofile"`, `Sys.unsetenv("R_PROFILE_USER")`
	if value, set := m.lookupEnv("R_PROFILE_USER"); set {
		users, restore = strconv.Quote(value), `Sys.setenv(R_PROFILE_USER = users)`
	}
	return append(slices.Clip(m.Env), "R_PROFILE_USER="+workers.FilesDir+"/init-file.R"), fmt.Sprintf(`local({
    users <- %s
    %s
    if (nzchar(users) && file.exists(users)) base::sys.source(users, envir = globalenv())
    base::.First.sys()
    base::sys.source(%s, envir = globalenv())
})
`, users, restore, strconv.Quote(m.InitFile))
}

// rFileInput runs a file as Rscript does: R reads the file instead of a console, so it prints every
// value at the top level, and stdin() is the file.
func rFileInput(s *workers.Spec, path, _ string, args []string) (string, error) {
	if len(args) > 0 {
		s.Args = slices.Concat(s.Args, []string{"--args"}, args)
	}
	return readProgram(path)
}

// rProcessArgs returns the arguments with which Rscript starts R.
func rProcessArgs(_, file string, args []string) []string {
	words := []string{"--no-echo", "--no-restore", "--file=" + file}
	if len(args) > 0 {
		words = slices.Concat(words, []string{"--args"}, args)
	}
	return words
}
