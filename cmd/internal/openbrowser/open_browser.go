package openbrowser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/internal/atomicfile"
	"github.com/turnstone-repl/turnstone/internal/httpauth"
	"github.com/turnstone-repl/turnstone/internal/securefile"
)

// browserTimeout bounds the program that opens a browser. Some run as long as the browser does.
const browserTimeout = 10 * time.Second

// Open opens a link in the user's browser through a private file, because all users of a
// machine can read the arguments of programs. remove removes that file.
func Open(ctx context.Context, link string) (remove func(), err error) {
	remove = func() {}
	dir := cmdkit.StateDir()
	if dir == "" {
		return remove, errors.New("the private file with the link needs a home directory")
	}
	if err := securefile.MakeDir(dir); err != nil {
		return remove, err
	}
	f, err := securefile.CreateTemp(dir, "view-")
	if err != nil {
		return remove, err
	}
	path := f.Name() + ".html"
	page := atomicfile.Adopt(f, path)
	defer page.Abort()
	_, err = fmt.Fprintf(page, "<!doctype html><meta charset=utf-8><title>Turnstone</title><meta name=referrer content=no-referrer><script>location.replace(%q)</script>", link)
	if err != nil {
		return remove, err
	}
	if err := page.Commit(); err != nil {
		return remove, err
	}
	removal := time.AfterFunc(httpauth.LoginLinkTimeout, func() { _ = os.Remove(path) })
	remove = func() {
		removal.Stop()
		_ = os.Remove(path)
	}
	name, args := browserCommand(path)
	opening := exec.CommandContext(ctx, name, args...)
	if err := opening.Start(); err != nil {
		return remove, err
	}
	ended := make(chan error, 1)
	go func() { ended <- opening.Wait() }()
	timer := time.NewTimer(browserTimeout)
	defer timer.Stop()
	select {
	case err = <-ended:
	case <-timer.C:
	}
	return remove, err
}
