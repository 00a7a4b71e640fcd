package daemoncmd

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/workers"
)

// warmPoolFlags holds the user's choice of the sessions that a daemon keeps ready.
type warmPoolFlags struct {
	kinds     warmKinds
	code, dir string
}

// warmKinds is the value of --warm, which is given once for each kind of session.
type warmKinds []daemon.WarmPoolOptions

func (k *warmKinds) String() string { return strings.Join(k.Values(), " ") }

// Values returns the kinds as they were given: python=4.
func (k *warmKinds) Values() (values []string) {
	for _, one := range *k {
		values = append(values, fmt.Sprintf("%s=%d", one.Language, one.Count))
	}
	return values
}

func (w *warmPoolFlags) AddFlags(f *flag.FlagSet) {
	f.Var(&w.kinds, "warm", "`KIND` keep sessions ready for clients that create one with the same settings, such as python=4; may be repeated")
	f.StringVar(&w.code, "warm-code", "", "`CODE` run this in each ready session before a client gets it")
	f.StringVar(&w.dir, "warm-dir", "", "`DIR` the directory of the first ready sessions; default the daemon's")
}

// Set adds a kind.
func (k *warmKinds) Set(text string) error {
	name, number, ok := strings.Cut(text, "=")
	n, err := strconv.Atoi(number)
	switch {
	case !ok || err != nil || n < 1:
		return fmt.Errorf("%q: use LANGUAGE=N, such as python=4", text)
	case !languages.Has(name):
		return fmt.Errorf("unknown language %q", name)
	case slices.ContainsFunc(*k, func(one daemon.WarmPoolOptions) bool { return one.Language == name }):
		return fmt.Errorf("%s is given twice", name)
	}
	*k = append(*k, daemon.WarmPoolOptions{Language: name, Count: n})
	return nil
}

// validatePool rejects flags that contradict each other.
func (w *warmPoolFlags) validatePool(maxSessions int) error {
	all := 0
	for _, k := range w.kinds {
		all += k.Count
	}
	switch {
	case len(w.kinds) == 0 && (w.code != "" || w.dir != ""):
		return cmdkit.UsageErrorf("--warm-code and --warm-dir are for --warm")
	case len(w.kinds) > 1 && w.code != "":
		return cmdkit.UsageErrorf("--warm-code is code of one language, but --warm names %d", len(w.kinds))
	case all >= maxSessions:
		return cmdkit.UsageErrorf("--warm keeps %d sessions ready, which leaves no room for others; --max-sessions is %d", all, maxSessions)
	}
	if w.dir == "" {
		return nil
	}
	if i, err := os.Stat(w.dir); err != nil || !i.IsDir() {
		return cmdkit.UsageErrorf("--warm-dir %s: not a directory", w.dir)
	}
	var err error
	w.dir, err = filepath.Abs(w.dir)
	return err
}

func (w *warmPoolFlags) poolSpecs() []daemon.WarmPoolOptions {
	for i := range w.kinds {
		w.kinds[i].Dir, w.kinds[i].Code = w.dir, w.code
	}
	return w.kinds
}

// startStamp describes the files that affect the start of a worker: the interpreter, its
// pyvenv.cfg, and the saved grants.
func startStamp(spec *workers.Spec) string {
	var stamp strings.Builder
	for _, path := range []string{spec.Path, filepath.Join(filepath.Dir(spec.Path), "..", "pyvenv.cfg"), string(cmdflags.UserConfigFile())} {
		if i, err := os.Stat(path); err == nil {
			fmt.Fprintf(&stamp, "%d %d;", i.Size(), i.ModTime().UnixNano())
		} else {
			stamp.WriteString("-;")
		}
	}
	return stamp.String()
}
