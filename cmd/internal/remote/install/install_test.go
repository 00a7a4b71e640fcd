//go:build linux

package install

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/owners"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

// testTimeout bounds the time of a remote end on a busy machine.
const testTimeout = 2 * time.Minute

// A testRemote is a simulated remote end on this machine: a home directory, and one kind of shell.
type testRemote struct {
	home    string
	prefix  []string // the command prefix
	program string   // to be installed: "echo", which prints "version", or "false"
}

// testShells are the shells that run the script.
var testShells = []string{"dash", "bash", "busybox"}

// newTestRemote creates a remote end with a shell, and additional environment variables.
func newTestRemote(t *testing.T, shell string, env ...string) testRemote {
	t.Helper()
	binary, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("no %s here: scripts/setup-dev installs it", shell)
	}
	home, bin := t.TempDir(), t.TempDir()
	if shell == "busybox" { // installs all programs of busybox, as on a machine without other programs
		if out, err := exec.Command(binary, "--install", "-s", bin).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	} else if err := os.Symlink(binary, filepath.Join(bin, "sh")); err != nil {
		t.Fatal(err)
	}
	words := []string{"env", "-i", "HOME=" + home, "TMPDIR=" + home + "/tmp", "PATH=" + bin + ":/usr/bin:/bin"}
	return testRemote{home: home, prefix: append(words, env...), program: "echo"}
}

// programPadding makes the program larger than the buffer of a pipe.
const programPadding = 400 << 10

// installOptions installs a small real program at a remote end.
func (r testRemote) installOptions(t *testing.T) Options {
	t.Helper()
	from, err := exec.LookPath(cmp.Or(r.program, "echo"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	more := make([]byte, programPadding)
	_, _ = rand.Read(more)
	self := filepath.Join(t.TempDir(), "repl")
	if err := testexec.WriteExecutable(self, append(data, more...)); err != nil {
		t.Fatal(err)
	}
	return Options{Prefix: r.prefix, Programs: ProgramFinder{Self: self, Build: map[string]string{"GOOS": "linux", "GOARCH": runtime.GOARCH, "CGO_ENABLED": "0"}}, Timeout: testTimeout}
}

// listFiles returns all files below the home of a remote end.
func (r testRemote) listFiles(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(r.home, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, r.home+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// wantRefused checks that an installation fails with these words, and leaves no files.
func (r testRemote) wantRefused(t *testing.T, o Options, words ...string) {
	t.Helper()
	wantError(t, o, words...)
	if left := r.listFiles(t); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// wantError checks that an installation fails with these words. A killed installation may leave a
// part, which a later one removes.
func wantError(t *testing.T, o Options, words ...string) {
	t.Helper()
	installed, err := Install(t.Context(), o)
	if err == nil {
		t.Fatalf("got %+v, want an error with %q", installed, words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %q, which lacks %q", err, w)
		}
	}
	t.Log(err)
}

func TestInstall(t *testing.T) {
	t.Parallel()

	t.Run("sends the program once through each shell", func(t *testing.T) {
		t.Parallel()
		for _, shell := range testShells {
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				f := newTestRemote(t, shell)
				o := f.installOptions(t)
				first, err := Install(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(first.Path, f.home+"/.cache/turnstone/bin/repl-") || first.Version != "version" || first.Sent == 0 || first.System != "linux/"+runtime.GOARCH {
					t.Errorf("got %+v", first)
				}
				want, err := os.ReadFile(o.Programs.Self)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(first.Path); err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %d bytes and %v, want %d", len(got), err, len(want))
				}
				if left := f.listFiles(t); len(left) != 1 {
					t.Errorf("found files %q", left)
				}
				second, err := Install(t.Context(), o)
				if err != nil || second.Sent != 0 || second.Path != first.Path {
					t.Errorf("the second time: got %+v, %v", second, err)
				}
				if err := os.Truncate(first.Path, 1000); err != nil { // simulates a loss of power
					t.Fatal(err)
				}
				third, err := Install(t.Context(), o)
				if err != nil || third.Sent == 0 {
					t.Errorf("the damaged program was not replaced: got %+v, %v", third, err)
				}
			})
		}
	})

	t.Run("sends the program uncompressed without gzip", func(t *testing.T) {
		t.Parallel()
		f := newTestRemote(t, "bash")
		f.addMounts(t, "mount --bind /dev/null /usr/bin/gzip") // /bin is the same directory, or has another gzip
		f.prefix = append(f.prefix, "PATH=/usr/bin")
		installed, err := Install(t.Context(), f.installOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		if i, err := os.Stat(installed.Path); err != nil || int(i.Size()) != installed.Sent {
			t.Errorf("got %+v, %v", installed, err)
		}
	})

	t.Run("picks the program for the remote's architecture", func(t *testing.T) {
		t.Parallel()
		for _, shell := range testShells {
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				f := newTestRemote(t, shell)
				fakeDir := t.TempDir()
				machine := map[string]string{"arm64": "aarch64", "amd64": "x86_64"}[foreignArch()]
				if err := testexec.WriteExecutable(filepath.Join(fakeDir, "uname"), []byte("#!/bin/sh\n[ $1 = -s ] && echo Linux || echo "+machine+"\n")); err != nil {
					t.Fatal(err)
				}
				f.prefix = append(f.prefix, "env", "PATH="+fakeDir+":"+strings.TrimPrefix(f.prefix[4], "PATH="))
				o := f.installOptions(t)
				cache := t.TempDir()
				o.Programs.Dirs = []string{cache}
				f.wantRefused(t, o, "the remote end is linux/"+foreignArch(), "put a program for it in "+cache, "GOARCH="+foreignArch())
				o.Programs.Build["version"] = "v1.2.3"
				f.wantRefused(t, o, "put turnstone-repl_1.2.3_linux_"+foreignArch()+".tar.gz and SHA256SUMS of the release in "+cache)

				path := filepath.Join(cache, "repl-linux-"+foreignArch())
				if err := testexec.WriteExecutable(path, []byte("#!/bin/sh\nexit 0\n")); err != nil {
					t.Fatal(err)
				}
				f.wantRefused(t, o, path+" is not a program for linux/"+foreignArch())
				patchArchitecture(t, path)
				f.wantRefused(t, o, "it does not run there", path)
			})
		}
	})

	t.Run("names a system that has no program", func(t *testing.T) {
		t.Parallel()
		for reply, want := range map[string]string{
			"Linux armv7l":                 "the remote end is Linux on armv7l",
			"FreeBSD amd64":                "the remote end is FreeBSD on amd64",
			"MINGW64_NT-10.0-19045 x86_64": "the remote end is Windows",
		} {
			kernel, machine, _ := strings.Cut(reply, " ")
			f := newTestRemote(t, "dash")
			fakeDir := t.TempDir()
			if err := testexec.WriteExecutable(filepath.Join(fakeDir, "uname"), []byte("#!/bin/sh\n[ $1 = -s ] && echo "+kernel+" || echo "+machine+"\n")); err != nil {
				t.Fatal(err)
			}
			f.prefix = append(f.prefix, "env", "PATH="+fakeDir+":/usr/bin:/bin")
			f.wantRefused(t, f.installOptions(t), want)
		}
	})

	t.Run("works for several callers at once", func(t *testing.T) {
		t.Parallel()
		for _, shell := range testShells {
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				f := newTestRemote(t, shell)
				o := f.installOptions(t)
				var both sync.WaitGroup
				for range 4 {
					both.Go(func() {
						installed, err := Install(t.Context(), o)
						if err != nil {
							t.Error(err)
							return
						}
						if out, err := exec.Command(installed.Path, "version").Output(); err != nil || !strings.HasPrefix(string(out), "version") {
							t.Errorf("it runs with %q, %v", out, err)
						}
					})
				}
				both.Wait()
				if left := f.listFiles(t); len(left) != 1 {
					t.Errorf("found files %q", left)
				}
			})
		}
	})
}

// addMounts runs the remote end in a mount namespace with its own mounts.
func (r *testRemote) addMounts(t *testing.T, mounts string) {
	t.Helper()
	if out, err := exec.Command("unshare", "-Urm", "true").CombinedOutput(); err != nil {
		t.Skipf("no user namespaces here: %s", out)
	}
	r.prefix = slices.Concat([]string{"unshare", "-Urm", "/bin/sh", "-c", mounts + ` && exec "$@"`, "x"}, r.prefix)
}

// otherTempDirs are the directories outside the home that the script tries.
const otherTempDirs = "/var/tmp /dev/shm"

func TestInstallDir(t *testing.T) {
	t.Parallel()

	t.Run("avoids a directory that forbids execution", func(t *testing.T) {
		t.Parallel()
		f := newTestRemote(t, "dash")
		f.addMounts(t, "mkdir "+f.home+"/.cache && mount -t tmpfs -o noexec none "+f.home+"/.cache")
		installed, err := Install(t.Context(), f.installOptions(t))
		if err != nil || !strings.HasPrefix(installed.Path, f.home+"/tmp/turnstone-bin-") {
			t.Errorf("got %+v, %v", installed, err)
		}
	})

	t.Run("names the directories when none allows execution", func(t *testing.T) {
		t.Parallel()
		for _, shell := range testShells {
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				f := newTestRemote(t, shell)
				f.addMounts(t, "for d in "+f.home+" "+otherTempDirs+"; do mount -t tmpfs -o noexec none $d || exit; done")
				f.wantRefused(t, f.installOptions(t), "there is no directory for it: "+f.home+"/.cache/turnstone/bin does not let programs run (noexec)", "/var/tmp/turnstone-bin-0", "/dev/shm/turnstone-bin-0")
				o := f.installOptions(t)
				o.Dir = t.TempDir()
				if installed, err := Install(t.Context(), o); err != nil || !strings.HasPrefix(installed.Path, o.Dir+"/turnstone/bin/repl-") {
					t.Errorf("in a directory that the user names: got %+v, %v", installed, err)
				}
			})
		}
	})

	t.Run("reports a full disk and leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		for _, shell := range testShells {
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				f := newTestRemote(t, shell)
				f.addMounts(t, "for d in "+f.home+" "+otherTempDirs+"; do mount -t tmpfs -o size=1m none $d || exit; done")
				f.wantRefused(t, f.installOptions(t), f.home+"/.cache/turnstone/bin has", "KiB left and", "are needed")
			})
		}
	})

	t.Run("reports a disk that fills up during the upload", func(t *testing.T) {
		t.Parallel()
		for _, shell := range []string{"dash", "bash"} { // busybox has its df built in
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				f := newTestRemote(t, shell)
				f.addMounts(t, "for d in "+f.home+" "+otherTempDirs+"; do mount -t tmpfs -o size=100k none $d || exit; done; mount --bind /dev/null /usr/bin/df")
				f.wantRefused(t, f.installOptions(t), "cannot be written to "+f.home+"/.cache/turnstone/bin", "No space left on device")
			})
		}
	})

	t.Run("rejects a directory that a shell could change", func(t *testing.T) {
		t.Parallel()
		for _, dir := range []string{"/tmp/a b", "relative", "/tmp/$HOME", "/tmp/'; reboot;'"} {
			f := testRemote{home: t.TempDir()}
			o := f.installOptions(t)
			o.Prefix, o.Dir = []string{"/bin/false"}, dir
			f.wantRefused(t, o, "use an absolute path")
		}
	})

	t.Run("avoids a home directory that a shell could change", func(t *testing.T) {
		t.Parallel()
		f := newTestRemote(t, "dash")
		special := filepath.Join(f.home, "Ada Lovelace")
		if err := os.Mkdir(special, 0o700); err != nil {
			t.Fatal(err)
		}
		f.prefix = append(f.prefix, "HOME="+special)
		installed, err := Install(t.Context(), f.installOptions(t))
		if err != nil || !strings.HasPrefix(installed.Path, f.home+"/tmp/turnstone-bin-") {
			t.Errorf("got %+v, %v", installed, err)
		}
	})

	t.Run("avoids a directory of another user", func(t *testing.T) {
		t.Parallel()
		for _, dir := range []string{".cache/turnstone/bin", ".cache/turnstone"} { // the owner of the outer directory can replace the inner one
			f := newTestRemote(t, "dash")
			if err := os.MkdirAll(filepath.Join(f.home, ".cache/turnstone/bin"), 0o777); err != nil {
				t.Fatal(err)
			}
			owners.GiveAway(t, filepath.Join(f.home, dir))
			installed, err := Install(t.Context(), f.installOptions(t))
			if err != nil || !strings.HasPrefix(installed.Path, f.home+"/tmp/turnstone-bin-0/") {
				t.Errorf("%s: got %+v, %v", dir, installed, err)
			}
		}
	})

	t.Run("keeps four programs and removes old partial files", func(t *testing.T) {
		t.Parallel()
		f := newTestRemote(t, "dash")
		dir := filepath.Join(f.home, ".cache/turnstone/bin")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-48 * time.Hour)
		for _, name := range []string{"repl-01", "repl-02", "repl-03", "repl-04", "repl-05", "repl-06.part.1.x", "other"} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, nil, 0o700); err != nil {
				t.Fatal(err)
			}
			old = old.Add(time.Hour)
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
		installed, err := Install(t.Context(), f.installOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"other", "repl-03", "repl-04", "repl-05", filepath.Base(installed.Path)}
		slices.Sort(want)
		var got []string
		for _, name := range f.listFiles(t) {
			got = append(got, filepath.Base(name))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestInstallDamage(t *testing.T) {
	t.Parallel()

	t.Run("discards a program damaged in transit", func(t *testing.T) {
		t.Parallel()
		self := testexec.OwnPath()
		for _, shell := range testShells {
			for how, words := range map[string]string{"cuts": "it did not arrive whole", "changes": "it "} {
				t.Run(shell+" "+how, func(t *testing.T) {
					t.Parallel()
					f := newTestRemote(t, shell)
					o := f.installOptions(t)
					o.Prefix = slices.Concat([]string{self, "relay", how}, f.prefix)
					f.wantRefused(t, o, "the remote end does not accept the program: "+words)
				})
			}
		}
	})

	t.Run("reports a wrong hash", func(t *testing.T) {
		t.Parallel()
		f := newTestRemote(t, "dash")
		wrong := t.TempDir() // prints another hash for the second file that it sees
		if err := testexec.WriteExecutable(filepath.Join(wrong, "sha256sum"), []byte("#!/bin/sh\necho 0123 -\n")); err != nil {
			t.Fatal(err)
		}
		f.prefix = append(f.prefix, "env", "PATH="+wrong+":/usr/bin:/bin")
		f.wantRefused(t, f.installOptions(t), "it was damaged on the way: its hash is 0123 and not")
	})

	t.Run("discards a program that does not run", func(t *testing.T) {
		t.Parallel()
		for _, shell := range testShells {
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				f := newTestRemote(t, shell)
				f.program = "false"
				f.wantRefused(t, f.installOptions(t), "it does not run there: status 1")
				o := f.installOptions(t)
				o.Programs.Build["CGO_ENABLED"] = "1"
				f.wantRefused(t, o, "it does not run there", "linked with the C library of this machine", "CGO_ENABLED=0 GOOS=linux GOARCH="+runtime.GOARCH+" go build")
			})
		}
	})
}

func TestInstallTimeout(t *testing.T) {
	t.Parallel()

	t.Run("gives up on a remote that stops reading", func(t *testing.T) {
		t.Parallel()
		self := testexec.OwnPath()
		f := newTestRemote(t, "bash")
		o := f.installOptions(t)
		o.Prefix = slices.Concat([]string{self, "relay", "freezes"}, f.prefix)
		o.stallTimeout = 2 * time.Second
		wantError(t, o, "the remote end accepts no more of the program for 2s")
	})

	// The client is gone, but the remote end is not informed: its input stays open.
	t.Run("ends the remote script when no more data comes", func(t *testing.T) {
		t.Parallel()
		for _, shell := range testShells {
			for _, reply := range []string{"", "0123456789abcdef0123456789abcdef 1000000\n500000\nhalf of it"} {
				t.Run(fmt.Sprintf("%s after %d bytes", shell, len(reply)), func(t *testing.T) {
					t.Parallel()
					f := newTestRemote(t, shell)
					p, err := transportcmd.Command{Words: append(slices.Clone(f.prefix), "sh")}.Start()
					if err != nil {
						t.Fatal(err)
					}
					defer p.Terminate()
					if _, err := io.WriteString(p, formatScript("nonce", "", 1, 1)); err != nil {
						t.Fatal(err)
					}
					lines := p.LineReader()
					for _, word := range []string{"here", "send"} {
						if word == "send" && reply == "" {
							break
						}
						for {
							line, err := lines.ReadString('\n')
							if err != nil {
								t.Fatalf("no reply %s: %v, %s", word, err, p.Stderr())
							}
							if strings.HasPrefix(line, "nonce "+word) {
								break
							}
						}
						if word == "here" {
							if _, err := io.WriteString(p, reply); err != nil {
								t.Fatal(err)
							}
						}
					}
					select {
					case <-p.Done():
					case <-time.After(testTimeout):
						t.Error("the script does not end")
					}
					if left := f.listFiles(t); len(left) > 0 {
						t.Errorf("left behind: %q", left)
					}
				})
			}
		}
	})

	// A watch that does not notice the end of the script sleeps for longer than this test may take.
	t.Run("stops the watch of the script however early it ends", func(t *testing.T) {
		t.Parallel()
		text := formatScript("nonce", "", 1, 1000)
		text = text[strings.Index(text, "stops() {"):strings.Index(text, "# ours succeeds")]
		text += "i=0; while [ $i -lt 300 ]; do begin /dev/null; [ $((i % 2)) = 0 ] || sleep 0; unwatch; i=$((i + 1)); done; echo over"
		for _, shell := range testShells {
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
				defer cancel()
				words := append(newTestRemote(t, shell).prefix, "sh", "-c", text)
				cmd := exec.CommandContext(ctx, words[0], words[1:]...)
				cmd.WaitDelay = time.Second
				if out, err := cmd.CombinedOutput(); err != nil || string(out) != "over\n" {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
	})

	t.Run("gives up on a remote that says nothing", func(t *testing.T) {
		t.Parallel()
		f := testRemote{home: t.TempDir()}
		o := f.installOptions(t)
		o.Prefix = []string{"/bin/sh", "-c", "exec sleep 1000", "x"}
		o.Timeout = time.Second
		f.wantRefused(t, o, "the remote end says nothing for 1s")
	})

	t.Run("stops when its context is canceled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		f := newTestRemote(t, "dash")
		o := f.installOptions(t)
		o.OnSend = func(int, string) { cancel() }
		if _, err := Install(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// patchArchitecture turns the program of this test into one for another architecture.
func patchArchitecture(t *testing.T, path string) {
	t.Helper()
	echo, err := exec.LookPath("echo")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(echo)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[18:], elfMachines["linux/"+foreignArch()].machine)
	if err := testexec.WriteExecutable(path, data); err != nil {
		t.Fatal(err)
	}
}

func foreignArch() string {
	return map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
}

func TestInstallTransport(t *testing.T) {
	t.Parallel()

	t.Run("ignores what the login scripts print", func(t *testing.T) {
		t.Parallel()
		for _, shell := range testShells {
			t.Run(shell, func(t *testing.T) {
				t.Parallel()
				f := newTestRemote(t, shell)
				// The command before the script reads a line, prints text without a newline at its end, and
				// leaves a child that prints later.
				f.prefix = slices.Concat([]string{"/bin/bash", "-c", `read -t 60 eaten; echo Welcome; stty -echo; (for i in 1 2 3 4 5; do sleep 0.05; echo late; done) & printf 'no newline'; exec "$@"`, "x"}, f.prefix)
				if installed, err := Install(t.Context(), f.installOptions(t)); err != nil || installed.Version != "version" {
					t.Errorf("got %+v, %v", installed, err)
				}
			})
		}
	})

	t.Run("quotes the transport command in the error", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			name   string
			prefix []string
			want   string
		}{
			{"a command that fails", []string{"/bin/sh", "-c", "echo no route >&2; exit 255", "x"}, "ended with exit status 255 before the program was installed; it said: no route"},
			{"a command that says nothing", []string{"/bin/true"}, "ended with exit status 0 before the program was installed"},
			{"no command", []string{"/nonexistent/ssh"}, "cannot start /nonexistent/ssh"},
			{"no words", nil, "no command that connects to it"},
			{"no shell", []string{"/usr/bin/env", "-i", "PATH=/nonexistent"}, "the remote end has no sh"},
			{"PowerShell", []string{"/bin/sh", "-c", "echo \"The term 'sh' is not recognized as the name of a cmdlet\" >&2; exit 1", "x"}, "the remote end is Windows"},
			{"a flood", []string{"/bin/sh", "-c", "yes", "x"}, "prints more than 64 KiB of foreign output"},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				f := testRemote{home: t.TempDir()}
				o := f.installOptions(t)
				o.Prefix = c.prefix
				f.wantRefused(t, o, c.want)
			})
		}
	})

	t.Run("detects a terminal in the transport command", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("script"); err != nil {
			t.Skip("script is not installed: bsdutils provides it")
		}
		f := newTestRemote(t, "dash")
		f.prefix = []string{"/bin/sh", "-c", `exec script -qec "$1" /dev/null`, "x"}
		f.wantRefused(t, f.installOptions(t), "ssh -T")
	})
}
