package environ_test

import (
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/environ"
)

func TestSplit(t *testing.T) {
	for entry, want := range map[string][2]string{
		"A=1":       {"A", "1"},
		"A=":        {"A", ""},
		"A=1=2":     {"A", "1=2"},
		`=C:=C:\x`:  {"=C:", `C:\x`},
		"A":         {},
		"=":         {},
		"=A":        {},
		"":          {},
		"A B=C D\n": {"A B", "C D\n"},
	} {
		name, value, ok := environ.Split(entry)
		if got := [2]string{name, value}; got != want || ok != (want[0] != "") {
			t.Errorf("%q: got %q, %v, want %q", entry, got, ok, want)
		}
	}
}

func TestLookup(t *testing.T) {
	env := []string{"A=1", "B=", "A=2", "AB=3", "Path=4", "C", "=C:=5"}
	for name, want := range map[string]string{"A": "2", "B": "", "AB": "3", "Path": "4", "=C:": "5"} {
		if got, ok := environ.Lookup(env, name); got != want || !ok {
			t.Errorf("%s: got %q, %v, want %q", name, got, ok, want)
		}
		if got := environ.Get(env, name); got != want {
			t.Errorf("%s: Get: got %q, want %q", name, got, want)
		}
		if got := environ.Getenv(env)(name); got != want {
			t.Errorf("%s: Getenv: got %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"", "C", "D", "A=", "A=1"} {
		if got, ok := environ.Lookup(env, name); got != "" || ok {
			t.Errorf("%q: got %q, %v, want that it is not set", name, got, ok)
		}
	}
	if _, ok := environ.Lookup(env, "PATH"); ok != environ.IgnoresCase {
		t.Errorf("PATH is set: %v, want %v", ok, environ.IgnoresCase)
	}
}

func TestWithout(t *testing.T) {
	env := []string{"A=1", "AB=2", "B=3", "A=4", "C", "=C:=5"}
	for _, test := range []struct{ names, want []string }{
		{nil, env},
		{[]string{"A"}, []string{"AB=2", "B=3", "C", "=C:=5"}},
		{[]string{"A", "B", "D"}, []string{"AB=2", "C", "=C:=5"}},
		{[]string{"", "C"}, env},
	} {
		if got := environ.Without(env, test.names...); !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q, want %q", test.names, got, test.want)
		}
	}
	if got := environ.Without([]string{"A=1"}, "A"); got == nil || len(got) != 0 {
		t.Errorf("got %#v, want an empty list: nil means the environment of this process", got)
	}
	want := []string{"a=1"}
	if environ.IgnoresCase {
		want = []string{}
	}
	if got := environ.Without([]string{"a=1"}, "A"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestApply(t *testing.T) {
	env := []string{"A=1", "B=2", "A=3"}
	before := slices.Clone(env)
	for _, test := range []struct{ changes, want []string }{
		{nil, env},
		{[]string{"A=4"}, []string{"B=2", "A=4"}},
		{[]string{"A", "C="}, []string{"B=2", "C="}},
		{[]string{"C=5", "C=6", "B"}, []string{"A=1", "A=3", "C=6"}},
		{[]string{"A", "A=7"}, []string{"B=2", "A=7"}},
	} {
		if got := environ.Apply(env, test.changes); !slices.Equal(got, test.want) {
			t.Errorf("%q: got %q, want %q", test.changes, got, test.want)
		}
	}
	if !slices.Equal(env, before) {
		t.Errorf("got %q: the list itself changed", env)
	}
}
