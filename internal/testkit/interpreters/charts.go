package interpreters

import (
	"os"
	"path/filepath"
	"testing"
)

// ChartsPython returns the Python in which scripts/setup-dev installs plotly, bokeh and widgets. It skips
// the test if that Python is not installed.
func ChartsPython(t testing.TB) string {
	t.Helper()
	python := filepath.Join(chartsDir(t), "bin", "python3")
	if _, err := os.Stat(python); err != nil {
		t.Skip("plotly, bokeh and widgets are not installed: scripts/setup-dev installs them")
	}
	return python
}

// PlotlyScript returns the file of plotly's script, which is a published build. It skips the test if
// plotly is not installed.
func PlotlyScript(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(chartsDir(t), "lib", "python3*", "site-packages", "plotly", "package_data", "plotly.min.js"))
	if err != nil || len(found) == 0 {
		t.Skip("plotly is not installed: scripts/setup-dev installs it")
	}
	return found[0]
}

func chartsDir(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "turnstone", "charts")
}
