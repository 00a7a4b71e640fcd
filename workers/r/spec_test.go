//go:build unix

package r

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers"
)

// newTestSpec returns the Spec for an R that is never run.
func newTestSpec(t *testing.T, o Options) workers.Spec {
	t.Helper()
	l := newFindFixture(t)
	o.Path = l.writeRHome(l.home+"/R", "4.2.2")
	return Spec(o)
}

func TestSpec(t *testing.T) {
	t.Run("starts the front end of the user", func(t *testing.T) {
		s := newTestSpec(t, Options{Dir: t.TempDir(), Args: []string{"a", "--b c"}})
		if s.Validate() != nil || !strings.HasSuffix(s.Path, "/R/bin/R") || s.PathSource == "" {
			t.Errorf("got %+v", s)
		}
		if want := []string{"--no-save", "--no-restore", "--quiet", "--no-readline", "--args", "a", "--b c"}; !slices.Equal(s.Args, want) {
			t.Errorf("got %q, want %q", s.Args, want)
		}
		if _, ok := s.Files["boot.R"]; !ok {
			t.Error("boot.R is not among the files")
		}
		if _, ok := s.Files[shimName]; ok == (s.Preparations != nil) {
			t.Error("the shim must be either embedded or prepared")
		}
	})

	// The worker restores each variable: to a value, to an empty one, or to unset.
	t.Run("keeps the variables of the user", func(t *testing.T) {
		t.Setenv("LANG", "C.UTF-8")
		t.Setenv("R_TESTS", "inherited")
		t.Setenv("R_PROFILE", "hidden")
		s := newTestSpec(t, Options{Env: []string{"R_PROFILE", "R_PROFILE_USER=", "OTHER=x", "TMPDIR=/scratch"}})
		want := []string{
			"R_PROFILE", "R_PROFILE_USER=", "OTHER=x", "TMPDIR=/scratch",
			"R_HOME", "TURNSTONE_R=width=800 height=600 res=96 keep_going=0",
			"R_TESTS={files}/boot.R", "TURNSTONE_R_TESTS=inherited",
			"R_PROFILE={files}/boot.R", "TURNSTONE_R_PROFILE",
			"R_PROFILE_USER={files}/boot.R", "TURNSTONE_R_PROFILE_USER=",
		}
		if plain := []string{"TMPDIR={files}", "TURNSTONE_TMPDIR=/scratch"}; !slices.Equal(s.Env, want) || !slices.Equal(s.PlainEnv, plain) {
			t.Errorf("got  %q and %q,\nwant %q and %q", s.Env, s.PlainEnv, want, plain)
		}
	})

	t.Run("sets a locale if there is none", func(t *testing.T) {
		none := []string{"LC_ALL", "LC_CTYPE", "LANG"}
		if s := newTestSpec(t, Options{Env: none}); !slices.Contains(s.Env, "LC_CTYPE="+utf8Locale) {
			t.Errorf("without one: got %q", s.Env)
		}
		if s := newTestSpec(t, Options{Env: append(none, "LANG=C")}); slices.Contains(s.Env, "LC_CTYPE="+utf8Locale) {
			t.Errorf("with one of the user's: got %q", s.Env)
		}
	})

	t.Run("rejects options out of range", func(t *testing.T) {
		for _, o := range []Options{
			{Width: minPixels - 1}, {Width: maxPixels + 1}, {Height: -1}, {Height: maxPixels + 1},
			{Resolution: minResolution - 1}, {Resolution: maxResolution + 1},
		} {
			if s := newTestSpec(t, o); s.Err == nil || !strings.Contains(s.Err.Error(), "out of range") {
				t.Errorf("%+v: got %v", o, s.Err)
			}
		}
		s := newTestSpec(t, Options{Width: minPixels, Height: maxPixels, Resolution: maxResolution, KeepGoing: true})
		if !slices.Contains(s.Env, "TURNSTONE_R=width=50 height=10000 res=1200 keep_going=1") {
			t.Errorf("got %q, %v", s.Env, s.Err)
		}
	})
}
