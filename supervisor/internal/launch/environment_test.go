package launch

import (
	"slices"
	"testing"
)

func TestWindowsEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		root string
		want []string
	}{
		"overriding PATH removes Path and path": {[]string{"Path=a", "path=b", "PATH=c"}, "", []string{"PATH=c"}},
		"the last writer's spelling stays":      {[]string{"PATH=a", "Path=b"}, "", []string{"Path=b"}},
		"names are sorted without case":         {[]string{"b=1", "A=2", "C=3"}, "", []string{"A=2", "b=1", "C=3"}},
		"letters beyond ASCII are folded":       {[]string{"größe=1", "GRÖßE=2"}, "", []string{"GRÖßE=2"}},
		"the directory of a drive is kept":      {[]string{`=C:=C:\x`, "A=1"}, "", []string{`=C:=C:\x`, "A=1"}},
		"a value may contain anything":          {[]string{"A==1=", "B="}, "", []string{"A==1=", "B="}},
		"invalid entries are dropped":           {[]string{"", "A", "="}, "", []string{}},
		"SystemRoot is added":                   {[]string{"Z=1"}, `C:\W`, []string{`SystemRoot=C:\W`, "Z=1"}},
		"an existing SystemRoot is kept":        {[]string{`systemroot=D:\W`}, `C:\W`, []string{`systemroot=D:\W`}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := windowsEnvironment(c.env, c.root)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestWindowsEnvironmentZeroByte(t *testing.T) {
	if env, err := windowsEnvironment([]string{"A=x\x00B=y"}, ""); err == nil || !slices.Equal(env, nil) {
		t.Errorf("got %q, %v, want an error", env, err)
	}
}
