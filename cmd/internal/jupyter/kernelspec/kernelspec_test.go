package kernelspec

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeKernelspec writes a kernelspec below a data directory.
func writeKernelspec(t *testing.T, data, name, text string) string {
	t.Helper()
	dir := filepath.Join(data, "kernels", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kernel.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func kernelJSON(display string) string {
	return `{"argv":["python3","-m","ipykernel_launcher","-f","{connection_file}","{resource_dir}"],"display_name":"` + display + `","language":"python"}`
}

// testEnv returns an environment without the user's own kernels.
func testEnv(t *testing.T, kv ...string) func(string) string {
	t.Helper()
	env := map[string]string{"JUPYTER_DATA_DIR": filepath.Join(t.TempDir(), "none")}
	for i := 0; i < len(kv); i += 2 {
		env[kv[i]] = kv[i+1]
	}
	return func(name string) string { return env[name] }
}

func TestKernelspec(t *testing.T) {
	t.Run("takes the first directory in Jupyter's order", func(t *testing.T) {
		first, second, user, active := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
		writeKernelspec(t, first, "turnstone-a", kernelJSON("A of the path"))
		writeKernelspec(t, second, "Turnstone-B", kernelJSON("B of the path"))
		writeKernelspec(t, user, "turnstone-b", kernelJSON("B of the user"))
		writeKernelspec(t, user, "turnstone-c", kernelJSON("C of the user"))
		writeKernelspec(t, filepath.Join(active, "share", "jupyter"), "turnstone-c", kernelJSON("C of the environment"))
		writeKernelspec(t, filepath.Join(active, "share", "jupyter"), "turnstone-d", kernelJSON("D of the environment"))
		env := testEnv(t, "JUPYTER_PATH", first+string(os.PathListSeparator)+second, "JUPYTER_DATA_DIR", user, "VIRTUAL_ENV", active)
		for name, want := range map[string]string{
			"turnstone-a": "A of the path", "TURNSTONE-B": "B of the path", "turnstone-c": "C of the user", "turnstone-d": "D of the environment",
		} {
			if s, err := Find(env, name); err != nil || s.Display != want {
				t.Errorf("%s: got %q, %v; want %q", name, s.Display, err, want)
			}
		}
		var names []string
		for _, s := range List(env) {
			if strings.HasPrefix(s.Name, "turnstone-") {
				names = append(names, s.Name)
			}
		}
		if !slices.Equal(names, []string{"turnstone-a", "turnstone-b", "turnstone-c", "turnstone-d"}) {
			t.Error(names)
		}
	})

	t.Run("lists the installed kernels when one is missing", func(t *testing.T) {
		user := t.TempDir()
		writeKernelspec(t, user, "turnstone-a", kernelJSON("A"))
		writeKernelspec(t, user, "turnstone-bad", `{`)
		_, err := Find(testEnv(t, "JUPYTER_DATA_DIR", user), "turnstone-x")
		var missing *NotFoundError
		if !errors.As(err, &missing) || !slices.Contains(missing.Installed, "turnstone-a") || slices.Contains(missing.Installed, "turnstone-bad") {
			t.Error(err)
		}
	})

	t.Run("lists a broken kernelspec with its error", func(t *testing.T) {
		user := t.TempDir()
		for name, bad := range map[string][2]string{
			"not-json":  {`{"argv":`, "not a JSON"},
			"no-argv":   {`{"display_name":"x"}`, "argv"},
			"no-file":   {`{"argv":["x"]}`, "{connection_file}"},
			"interrupt": {`{"argv":["x","{connection_file}"],"interrupt_mode":"shout"}`, "interrupt_mode"},
			"numbers":   {`{"argv":[1]}`, "not a JSON"},
			"huge":      {strings.Repeat(" ", maxFileBytes+1), "larger"},
		} {
			writeKernelspec(t, user, name, bad[0])
			_, err := Find(testEnv(t, "JUPYTER_DATA_DIR", user), name)
			if err == nil || !strings.Contains(err.Error(), bad[1]) || !strings.Contains(err.Error(), "kernel.json") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := os.MkdirAll(filepath.Join(user, "kernels", "empty"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, s := range List(testEnv(t, "JUPYTER_DATA_DIR", user)) {
			if s.Name == "empty" {
				t.Error("a directory without a kernel.json is listed")
			}
		}
	})

	t.Run("uses the Python of the kernelspec's environment", func(t *testing.T) {
		env := t.TempDir()
		dir := writeKernelspec(t, filepath.Join(env, "share", "jupyter"), "k", kernelJSON("K"))
		s, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Command("c.json"); got[0] != "python3" || got[4] != "c.json" || got[5] != dir {
			t.Errorf("without an interpreter in the environment: got %q", got)
		}
		python := programPaths(env, "python")[0]
		if err := os.MkdirAll(filepath.Dir(python), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(python, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if got := s.Command("c.json"); got[0] != python {
			t.Errorf("got %q, want %s", got, python)
		}
		if s.PythonModule() != "ipykernel_launcher" {
			t.Error(s.PythonModule())
		}
		user, err := Read(writeKernelspec(t, t.TempDir(), "k", kernelJSON("K")))
		if err != nil || user.Command("c")[0] != "python3" {
			t.Errorf("without an environment: got %q, %v", user.Command("c"), err)
		}
	})

	t.Run("expands variables in the environment", func(t *testing.T) {
		s, err := Read(writeKernelspec(t, t.TempDir(), "k", `{"argv":["x","{connection_file}"],"env":{"B":"${HOME}/b:${NOT_SET}","A":"$HOME"},"interrupt_mode":"message"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Env(testEnv(t, "HOME", "/h")); !slices.Equal(got, []string{"A=$HOME", "B=/h/b:${NOT_SET}"}) {
			t.Errorf("%q", got)
		}
		if !s.InterruptByMessage {
			t.Error("interrupt_mode was not read")
		}
	})
}
