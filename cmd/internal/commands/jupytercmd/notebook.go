package jupytercmd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/install"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernel"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelspec"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/session"
)

// notebookIdleTimeout is how long the daemon keeps an unused session that a notebook created and
// never shut down.
const notebookIdleTimeout = 24 * time.Hour

// JupyterText is the part of the help of repl jupyter that lists what it can do.
const JupyterText = `For JupyterLab, VS Code, nbclient, papermill and others.

install  create kernels for Jupyter: one for each language found here, or for
         --lang, or for the session that --session names. A notebook gets a
         new session, which ends with it. The session of --session stays.
list     list the kernels that install has created
remove   remove some of them
kernel   run a kernel; Jupyter starts this`

// jupyterFlags holds the flags and choices of repl jupyter.
type jupyterFlags struct {
	connectionFile                         string
	session                                string
	name, display                          string
	prefix                                 string
	target                                 daemonlink.DaemonTarget
	userDir, keepOnShutdown, keepOnRestart bool
	runtime                                cmdflags.RuntimeFlags
	packages                               cmdflags.PackageList
}

// NewJupyterCommand returns the command that offers sessions as Jupyter kernels.
func NewJupyterCommand(f *flag.FlagSet) cmdkit.Action {
	var j jupyterFlags
	f.StringVar(&j.connectionFile, "f", "", "`FILE` kernel: the connection file")
	f.StringVar(&j.session, "session", "", "`NAME` a session of the daemon; otherwise each kernel gets a new one")
	f.Var(languages.LanguageFlag{Target: &j.runtime.Lang}, "lang", languages.LangUsage())
	f.StringVar(&j.runtime.Python, "python", "", "`PYTHON` an interpreter, the directory of an environment, or a version such as 3.12")
	f.StringVar(&j.runtime.R, "r", "", "`R` an R executable, the directory of an installation, or a version such as 4.3")
	f.Var(&j.packages, "with", cmdkit.WithUsage)
	f.BoolVar(&j.keepOnShutdown, "keep-on-shutdown", false, "keep the session after a shutdown, as with --session")
	f.BoolVar(&j.keepOnRestart, "keep-on-restart", false, "keep the variables at a restart; only the kernel's own process restarts")
	f.BoolVar(&j.userDir, "user", false, "install: for this user; the default")
	f.StringVar(&j.prefix, "prefix", "", "`DIR` install, list, remove: use DIR/share/jupyter/kernels, such as that of an environment")
	f.StringVar(&j.name, "name", "", "`KERNEL` install: the kernel's name; default turnstone- and the language or session")
	f.StringVar(&j.display, "display-name", "", "`TEXT` install: the name that users see")
	j.target.AddFlags(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		if len(args) > 0 && args[0] == "kernel" {
			args = filterKernelArgs(f, args)
		}
		words, err := cmdkit.ParseInterspersed(f, args)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := errors.Join(j.target.ResolveTarget(), j.validateArgs(words)); err != nil {
			return cmdkit.StatusUsage, err
		}
		switch words[0] {
		case "install":
			return j.installKernels(s)
		case "list":
			return j.listKernels(s)
		case "remove":
			return j.removeKernels(s, words[1:])
		}
		return j.runKernel(s)
	}
}

// filterKernelArgs removes from the arguments of repl jupyter kernel those that a front end appends
// for kernels that it knows. jupyter run, for instance, appends the names of its files.
func filterKernelArgs(f *flag.FlagSet, args []string) []string {
	own := []string{args[0]}
	for i := 1; i < len(args); i++ {
		dashed, _, valued := strings.Cut(args[i], "=")
		name := strings.TrimLeft(dashed, "-")
		known := f.Lookup(name)
		if name == "h" || name == "help" {
			own = append(own, args[i])
		}
		if known == nil || !strings.HasPrefix(dashed, "-") {
			continue
		}
		own = append(own, args[i])
		truth, ok := known.Value.(interface{ IsBoolFlag() bool })
		if valued = valued || ok && truth.IsBoolFlag(); !valued && i+1 < len(args) {
			i++
			own = append(own, args[i])
		}
	}
	return own
}

// validateArgs rejects combinations that make no sense.
func (j *jupyterFlags) validateArgs(words []string) error {
	const use = "use repl jupyter install, list, remove KERNEL ..., or kernel -f FILE"
	if len(words) == 0 || !slices.Contains([]string{"install", "list", "remove", "kernel"}, words[0]) {
		return cmdkit.UsageErrorf(use)
	}
	switch {
	case len(words) > 1 && words[0] != "remove":
		return cmdkit.UsageErrorf("jupyter %s takes no argument %q", words[0], words[1])
	case len(words) == 1 && words[0] == "remove":
		return cmdkit.UsageErrorf("jupyter remove needs the names of kernels; repl jupyter list shows them")
	case words[0] == "kernel" && j.connectionFile == "":
		return cmdkit.UsageErrorf("jupyter kernel needs -f FILE, the connection file that Jupyter passes; see repl jupyter install")
	case j.userDir && j.prefix != "":
		return cmdkit.UsageErrorf("use either --user or --prefix, not both")
	case j.session != "" && !session.IsValidName(j.session):
		return cmdkit.UsageErrorf("--session %s: use up to 64 letters, digits, dots, underscores and hyphens", j.session)
	case j.name != "" && !kernelspec.IsKernelName(j.name):
		return cmdkit.UsageErrorf("--name %s: use lower case letters, digits, dots, underscores and hyphens", j.name)
	}
	return nil
}

// kernelsDir returns the chosen directory for kernelspecs.
func (j *jupyterFlags) kernelsDir() (string, error) {
	if j.prefix != "" {
		prefix, err := filepath.Abs(j.prefix)
		return kernelspec.PrefixDir(prefix), err
	}
	return kernelspec.UserDir(os.Getenv)
}

// installKernels writes a kernelspec for each chosen language, or for a session.
func (j *jupyterFlags) installKernels(s cmdkit.Streams) (int, error) {
	start, err := install.SelfCommand(os.Args[0])
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	dir, err := j.kernelsDir()
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	chosen, err := j.kernelLanguages(s)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	if j.name != "" && len(chosen) > 1 {
		return cmdkit.StatusUsage, cmdkit.UsageErrorf("--name %s is for a single kernel; add --lang", j.name)
	}
	for _, l := range chosen {
		name, file := j.newKernelspec(l, start)
		path, err := kernelspec.Write(dir, name, file)
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		fmt.Fprintf(s.Out, "%s: %s\n", file.Display, path)
	}
	return cmdkit.StatusDone, nil
}

// kernelLanguages returns the chosen languages, or all that have a runtime here. For a session it
// returns the session's language, if known.
func (j *jupyterFlags) kernelLanguages(s cmdkit.Streams) ([]languages.Language, error) {
	if j.session != "" && j.runtime.Lang == "" {
		return []languages.Language{j.languageOfSession()}, nil
	}
	if j.runtime.Lang != "" || j.runtime.Python != "" || j.runtime.R != "" {
		l, _, err := j.runtime.ResolveRuntime()
		return []languages.Language{l}, err
	}
	var found []languages.Language
	for _, l := range languages.Available() {
		if spec := l.NewSpec("", "", languages.RuntimeSettings{}); spec.Err != nil {
			fmt.Fprintf(s.Err, "repl: no kernel for %s: %v\n", l.Display, spec.Err)
			continue
		}
		found = append(found, l)
	}
	if len(found) == 0 {
		return nil, errors.New("no language that repl supports was found here; repl doctor says why")
	}
	return found, nil
}

func (j *jupyterFlags) languageOfSession() languages.Language {
	ctx, cancel := context.WithTimeout(context.Background(), daemonlink.OpenTimeout)
	defer cancel()
	dialer, err := j.target.Dialer(ctx)
	if err != nil {
		return languages.Available()[0] // the kernel reports the reason
	}
	if c, err := client.Dial(ctx, dialer); err == nil {
		defer c.Close()
		if now, err := c.GetSession(ctx, j.session); err == nil {
			return languages.OfSession(now.Language)
		}
	}
	return languages.Available()[0] // Jupyter requires one; the kernel reports the actual language
}

// newKernelspec returns the kernelspec for a language.
func (j *jupyterFlags) newKernelspec(l languages.Language, start []string) (name string, f kernelspec.SpecFile) {
	argv := append(slices.Clone(start), "jupyter", "kernel", "-f", "{connection_file}")
	name, display := "turnstone-"+l.Name, l.Display+" (Turnstone)"
	if j.session != "" {
		name, display = "turnstone-"+strings.ToLower(j.session), j.session+" (Turnstone session)"
		argv = append(argv, "--session", j.session)
	}
	if j.session == "" || j.runtime.Lang != "" {
		argv = append(argv, "--lang", l.Name)
	}
	if j.runtime.Python != "" {
		argv = append(argv, "--python", j.runtime.Python)
	}
	if j.runtime.R != "" {
		argv = append(argv, "--r", j.runtime.R)
	}
	for _, with := range j.packages {
		argv = append(argv, "--with", with)
	}
	if j.keepOnShutdown {
		argv = append(argv, "--keep-on-shutdown")
	}
	if j.keepOnRestart {
		argv = append(argv, "--keep-on-restart")
	}
	argv = append(argv, j.target.TargetArgs()...)
	return cmp.Or(j.name, name), kernelspec.SpecFile{
		Argv: argv, Display: cmp.Or(j.display, display), Language: jupyterLanguage(l.Name).Name, Interrupt: "message",
		Metadata: kernelspec.Metadata{Turnstone: &kernelspec.OwnerMark{Session: j.session}},
	}
}

// ownKernelspecs returns the kernelspecs that this program has written.
func (j *jupyterFlags) ownKernelspecs() []kernelspec.KernelSpec {
	var all []kernelspec.KernelSpec
	if j.prefix == "" {
		all = kernelspec.List(os.Getenv)
	} else if dir, err := j.kernelsDir(); err == nil {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if s, err := kernelspec.Read(filepath.Join(dir, e.Name())); err == nil {
				all = append(all, s)
			}
		}
	}
	return slices.DeleteFunc(all, func(s kernelspec.KernelSpec) bool {
		_, isOurs := kernelspec.ReadOwnerMark(s.Dir)
		return !isOurs
	})
}

func (j *jupyterFlags) listKernels(s cmdkit.Streams) (int, error) {
	all := j.ownKernelspecs()
	if len(all) == 0 {
		fmt.Fprintln(s.Err, "repl: no kernels of repl are installed; repl jupyter install creates some")
		return cmdkit.StatusDone, nil
	}
	for _, k := range all {
		fmt.Fprintf(s.Out, "%-24s %-28s %s\n", k.Name, k.Display, k.Dir)
	}
	return cmdkit.StatusDone, nil
}

func (j *jupyterFlags) removeKernels(s cmdkit.Streams, names []string) (int, error) {
	all := j.ownKernelspecs()
	for _, name := range names {
		i := slices.IndexFunc(all, func(k kernelspec.KernelSpec) bool { return k.Name == strings.ToLower(name) })
		if i < 0 {
			return cmdkit.StatusFailed, fmt.Errorf("repl has no kernel %s; repl jupyter list shows its kernels", name)
		}
		if err := kernelspec.Remove(all[i].Dir); err != nil {
			return cmdkit.StatusFailed, err
		}
		fmt.Fprintf(s.Out, "removed %s\n", all[i].Dir)
	}
	return cmdkit.StatusDone, nil
}

// runKernel serves a connection file until the front end shuts it down.
func (j *jupyterFlags) runKernel(s cmdkit.Streams) (int, error) {
	connection, err := wire.ReadConnection(j.connectionFile)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	ctx, stop := cmdkit.CatchSignals()
	defer stop()
	starter, connected, err := j.openLinks(ctx, s)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	defer starter.Close()
	defer connected.Close()
	params, err := j.createParams()
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	err = kernel.Run(ctx, kernel.Options{
		Connection: connection,
		Open: func(ctx context.Context) (session.Session, session.Info, error) {
			ctx, cancel := context.WithTimeout(ctx, daemonlink.OpenTimeout)
			defer cancel()
			_, now, _, err := starter.OpenSession(ctx, params)
			if session.KindOf(err) == session.KindClosed && params.Language == "" {
				err = fmt.Errorf("%w; repl exec %s creates it, or this kernel does if it was installed with --lang", err, params.Name)
			}
			if err != nil {
				return nil, now, err
			}
			return connected.Session(now.Name).WithAuthor(cmdkit.CommandAuthor("jupyter")), now, nil
		},
		Language:       jupyterLanguage,
		Version:        cmdkit.ProgramVersion(),
		EndsSession:    j.session == "" && !j.keepOnShutdown,
		ResetsSession:  !j.keepOnRestart,
		PermissionHint: "Allow or refuse it with: repl grant " + params.Name,
		Interrupts:     interrupts,
		Notes:          s.Err,
	})
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	return cmdkit.StatusDone, nil
}

// openLinks returns two clients of the daemon. Only starter starts a daemon: a daemon that was
// stopped is started again only when a cell needs it. For a remote both are the same, because each
// would run a transport command.
func (j *jupyterFlags) openLinks(ctx context.Context, s cmdkit.Streams) (starter, connected *client.Client, err error) {
	j.target.StartsDaemon = true
	dialer, err := j.target.Dialer(ctx)
	if err != nil {
		return nil, nil, err
	}
	connected = client.New(dialer, nil)
	if j.target.IsRemote() {
		return connected, connected, nil
	}
	return client.New(dialer, func(ctx context.Context) error { return daemonlink.EnsureDaemon(ctx, j.target.LocalSocket(), s.Err) }), connected, nil
}

// createParams returns the parameters of this kernel's session.
func (j *jupyterFlags) createParams() (protocol.CreateParams, error) {
	p := protocol.CreateParams{Name: j.session, Language: j.runtime.Lang, Packages: j.packages}
	if p.Name == "" {
		p.Name = notebookSessionName(os.Getenv("JPY_SESSION_NAME"), j.connectionFile)
		if !j.keepOnShutdown {
			p.SessionIdleTimeoutMS = notebookIdleTimeout.Milliseconds()
		}
		p.Language = cmp.Or(p.Language, languages.Available()[0].Name)
		if !j.target.IsRemote() {
			p.Env = notebookEnv(os.Environ())
		}
	}
	var err error
	if p.Dir = j.target.RemoteDir; !j.target.IsRemote() {
		p.Dir, err = cmdkit.WorkingDir()
	}
	if err != nil || p.Language == "" {
		return p, err
	}
	l, err := languages.Find(p.Language)
	if err != nil {
		return p, err
	}
	c := j.runtime
	c.IsRemote = j.target.IsRemote()
	p.Runtime = c.RuntimeInDaemon(l)
	return p, nil
}

// notebookEnv returns the variables that a notebook's session takes over from the kernel's
// environment. It leaves out variables of the terminal, of systemd and with secrets, and variables
// that are not UTF-8.
func notebookEnv(environ []string) map[string]string {
	excluded := append(cmdflags.ClientSecrets(), "TERM", "PAGER", "LISTEN_FDS", "LISTEN_PID")
	env := make(map[string]string, len(environ))
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		isLeft := func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }
		if name != "" && !slices.ContainsFunc(excluded, isLeft) && utf8.ValidString(variable) {
			env[name] = value
		}
	}
	return env
}

// notebookSessionName names the session of a kernel after its notebook, if Jupyter provides that,
// and after the connection file, which stays the same over restarts.
func notebookSessionName(notebook, connection string) string {
	name := strings.TrimSuffix(filepath.Base(filepath.FromSlash(notebook)), ".ipynb")
	name = daemonlink.SessionNamePart(name)
	if notebook == "" || name == "" {
		name = "jupyter"
	}
	sum := sha256.Sum256([]byte(filepath.Base(connection)))
	return fmt.Sprintf("%s-%x", name[:min(len(name), 40)], sum[:4])
}

// jupyterLanguage returns the facts about a language that Jupyter needs.
func jupyterLanguage(name string) kernel.LanguageInfo {
	l := languages.OfSession(name)
	jupyter := cmp.Or(l.Export.JupyterName, name, "text")
	short := strings.ToLower(jupyter)
	k := kernel.LanguageInfo{Name: jupyter, MIME: "text/x-" + short, Lexer: short, Mode: short, NBConverter: "script", Extension: ".txt"}
	if l.Export.Extension != "" {
		k.Extension = "." + l.Export.Extension
	}
	switch l.Name {
	case "r":
		k.MIME = "text/x-rsrc" // front ends use it to choose colours
		k.PrintFormat = "print({%s\n})"
	case "python":
		k.NBConverter = "python"
		k.PrintFormat = "display((%s\n))"
	}
	return k
}
