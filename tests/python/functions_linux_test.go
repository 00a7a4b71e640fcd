package python_test

import (
	"os/exec"
	"testing"

	"github.com/turnstone-repl/turnstone/tests/drive"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// Those of numpy, pandas and polars are known by their names alone, so that a stand-in will do for
// the two that are not installed.
func TestFunction_ValuesOfNumpyAndFrames(t *testing.T) {
	const path = "/usr/bin/python3" // Debian's has numpy
	if exec.Command(path, "-c", "import numpy").Run() != nil {
		t.Skip("needs " + path + " with numpy")
	}
	r := drive.OpenHost(t, drive.NewHost(), python.Spec(python.Options{Path: path}))
	r.Run(t, "import numpy as np")
	wants(t, r, `
from turnstone import echo
for v in (np.int64(-5), np.uint8(7), np.float32(1.5), np.bool_(True), np.str_("ü"), np.bytes_(b"x"), np.array([1, 2]), np.array([[1.5, np.nan]]), np.array(3), np.arange(100_000)):
    got = echo(v)
    if type(got).__module__ != "builtins" or not np.array_equal(np.asarray(got), np.asarray(v), equal_nan=np.asarray(v).dtype.kind == "f"): print(repr(v), got)
def stand_in(module, name, *bases):
    return type(name, bases, {"__module__": module})()
import datetime
print(echo([stand_in("pandas._libs.missing", "NAType"), stand_in("pandas._libs.tslibs", "NaTType", object)]))
for v in (np.datetime64("2026-01-01"), np.array(["2026-01-01"], "datetime64[ns]"), np.complex128(1), stand_in("pandas.core.frame", "DataFrame"), stand_in("polars.dataframe.frame", "DataFrame"), stand_in("polars.series", "Series")):
    try: echo(v)
    except TypeError as e: print(e)
`, `[None, None]
echo: argument value: a value of type datetime64 cannot be sent: use str(...), or a datetime with a zone
echo: argument value: a value of type datetime64 cannot be sent: use str(...), or a datetime with a zone
echo: argument value: a value of type complex cannot be sent: use a list of two numbers
echo: argument value: a value of type DataFrame cannot be sent: use to_dict("records")
echo: argument value: a value of type DataFrame cannot be sent: use to_dicts()
echo: argument value: a value of type Series cannot be sent: use to_list()
`)
}
